"""The rows of a list of tools as its template prints them; made in Python, which is faster."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from app.console.http.page import Page
from app.console.templating import (
    NONE,
    first_sentence,
    milliseconds,
    number,
    time_element,
    translations,
)

_SENTENCE: Final = 140


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One row. `states` are texts with the kinds of their badges; `effect` is read, write or delete."""

    name: str
    url: str
    provider: str
    sentence: str
    effect: str
    is_destructive: bool
    tokens: str
    calls: str
    p95: str
    last: str
    states: tuple[tuple[str, str], ...]


def tool_rows(page: Page, tools: Sequence[Mapping[str, Any]]) -> list[ToolRow]:
    """Return the rows of items of `GET /tools`."""
    _, language = page.gettext, page.language
    texts = translations(language)
    never = time_element(None, texts)
    effects = {"read": _("read"), "write": _("write"), "delete": _("delete")}
    states = _list_badges(page)
    rows = []
    for tool in tools:
        usage = tool["usage"] or {}
        calls, last = usage.get("calls"), usage.get("last_called_at")
        rows.append(
            ToolRow(
                tool["name"],
                f"{page.root}/console/tools/{quote(tool['name'], safe='')}",
                tool["provider"],
                first_sentence(tool["description"].partition("\n\n")[0], _SENTENCE),
                effects[effect_of(tool["annotations"])],
                bool(tool["annotations"]["destructive"]),
                number(tool["cost"]["tokens"], language),
                number(calls, language) if calls else NONE,
                milliseconds(usage.get("p95_ms"), language),
                time_element(last, texts) if last else never,
                tuple(states[state] for state in _list_states(tool)),
            )
        )
    return rows


def state_badges(page: Page, tool: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what to know about the state of a tool, as texts with the kinds of their badges."""
    states = _list_badges(page)
    return [states[state] for state in _list_states(tool)]


def _list_badges(page: Page) -> dict[str, tuple[str, str]]:
    _ = page.gettext
    return {
        "disabled": (_("disabled"), "neutral"),
        "credential": (_("needs credential"), "attention"),
        "executor": (_("no executor"), "attention"),
        "deprecated": (_("deprecated"), "attention"),
        "approval": (_("needs approval"), "neutral"),
    }


def effect_of(known: Mapping[str, Any]) -> str:
    """Return what a call may do, of the annotations of a tool: read, write or delete."""
    if known["read_only"]:
        return "read"
    return "delete" if known["destructive"] else "write"


def _list_states(tool: Mapping[str, Any]) -> Iterator[str]:
    """Yield what keeps a tool from being called, and what else to know; nothing where all is well."""
    if not tool["enabled"]:
        yield "disabled"
    if tool["missing_credential"]:
        yield "credential"
    if tool["available"] is False:
        yield "executor"
    if tool["deprecated"]:
        yield "deprecated"
    if tool["requires_approval"]:
        yield "approval"

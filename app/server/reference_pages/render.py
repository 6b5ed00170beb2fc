"""Renders problem types and scopes as Markdown (also for docs/errors.md and docs/access.md) and as HTML."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.core.errors import PROBLEMS_PATH, SCOPES_PATH
from app.server.docs_page.page import prose
from app.server.problems.catalogue import ProblemType
from app.server.reference_pages.scopes import ScopeDescription

if TYPE_CHECKING:
    from jinja2 import Template

RETRYABLE: Final = {
    "yes": "Yes, after the seconds in `Retry-After` where there is one.",
    "no": "No: the same request would fail again, or do something twice.",
    "depends": "It depends; `retryable` of each problem says it.",
}


def problem_markdown(found: ProblemType, *, heading: str = "#") -> str:
    """Return the section about one problem type."""
    lines = [
        f"{heading} {found.slug}",
        f"**{found.title}** ({found.status}). {found.explanation}",
        f"What to do: {found.hint}",
        "\n".join(f"- {remedy}" for remedy in found.remedies),
        f"Retry: {RETRYABLE[found.retryable]}",
        "\n".join(f"- `{name}`: {meaning}" for name, meaning in found.members.items()),
        "```json\n" + _json(found.example) + "\n```",
    ]
    return "\n\n".join(line for line in lines if line) + "\n"


def problems_markdown(found: Sequence[ProblemType]) -> str:
    """Return a table of all problem types."""
    rows = [f"| [{one.slug}](#{one.slug}) | {one.status} | {one.retryable} | {one.title} |" for one in found]
    return "\n".join(["| slug | status | retry | title |", "|---|---|---|---|", *rows]) + "\n"


def scope_markdown(found: ScopeDescription, *, heading: str = "#") -> str:
    """Return the section about one scope."""
    operations = "\n".join(f"- `{operation}`" for operation in found.operations)
    needed = f"Needed by:\n\n{operations}" if operations else "No operation needs this scope itself."
    return f"{heading} {found.name}\n\n{found.description}\n\n{needed}\n"


def scopes_markdown(found: Sequence[ScopeDescription]) -> str:
    """Return a table of all scopes."""
    rows = [f"| `{one.name}` | {len(one.operations)} | {one.description} |" for one in found]
    return "\n".join(["| scope | operations | what it allows |", "|---|---|---|", *rows]) + "\n"


def problem_html(found: ProblemType, root: str) -> str:
    """Return the page of one problem type; `root` is the path of the gateway, "" without a prefix."""
    return _page("problem", found.title, root, problem=found, example=_json(found.example))


def problems_html(found: Sequence[ProblemType], root: str) -> str:
    """Return the page that lists all problem types."""
    return _page("problems", "Problem types", root, problems=found)


def scope_html(found: ScopeDescription, root: str) -> str:
    """Return the page of one scope."""
    return _page("scope", f"Scope {found.name}", root, scope=found)


def scopes_html(found: Sequence[ScopeDescription], root: str) -> str:
    """Return the page that lists all scopes."""
    return _page("scopes", "Scopes of API keys", root, scopes=found)


def _page(kind: str, title: str, root: str, **values: Any) -> str:
    return _template().render(
        kind=kind,
        title=title,
        root=root,
        retryable=RETRYABLE,
        problems_path=root + PROBLEMS_PATH,
        scopes_path=root + SCOPES_PATH,
        **values,
    )


@cache
def _template() -> "Template":
    # Most workers never render a page.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = prose
    return environment.get_template("page.html")


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)

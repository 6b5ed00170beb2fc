"""The form of a toolset: its fields as a body of `PUT /toolsets/{name}`, and a definition as fields."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from starlette.datastructures import FormData

LISTS: Final = ("tools", "providers", "tags", "search", "exclude", "pinned")
"""The members of a definition that are lists of texts; in the form, one text a line."""
_CHOICES: Final = {"mode": "auto", "argument_repair": "safe", "schemas": "portable"}
_BUDGETS: Final = ("max_bytes", "max_tokens")
_MAX_DIGITS: Final = 19


class InvalidForm(ValueError):
    """A field has a value that is none of its type: `field` is its name, `detail` says what it needs."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field
        self.detail = detail


def empty_fields(**given: str) -> dict[str, str]:
    """Return the fields of a new toolset, with some of them given."""
    blank = dict.fromkeys(("name", "title", "description", *LISTS, *_BUDGETS, "read_only", "changes"), "")
    return blank | _CHOICES | given


def fields_of(toolset: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields for a toolset of `GET /toolsets/{name}` with its definition."""
    definition = toolset["definition"] or {}
    fields = empty_fields(name=toolset["name"], title=toolset["title"], description=toolset["description"])
    fields |= {name: "\n".join(definition.get(name, ())) for name in LISTS}
    fields |= {name: definition.get(name, default) for name, default in _CHOICES.items()}
    budget = definition.get("result_budget") or {}
    fields |= {name: str(budget.get(name) or "") for name in _BUDGETS}
    fields["read_only"] = "1" if definition.get("read_only") else ""
    return fields


def body_of(form: FormData, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that the fields of a form make of a stored definition (`before`, {} for a new one).

    What the form does not have, such as the changes of single tools, stays as it is. Raises InvalidForm.
    """
    definition = writable(before)
    for name in LISTS:
        definition[name] = lines(str(form.get(name, "")))
    for name, default in _CHOICES.items():
        definition[name] = str(form.get(name) or default)
    definition["read_only"] = form.get("read_only") == "1"
    budget: dict[str, int] = {}
    for name in _BUDGETS:
        text = str(form.get(name, "")).strip()
        if text and not (text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS):
            raise InvalidForm(name, "Give a whole number.")
        if text:
            budget[name] = int(text)
    definition["result_budget"] = budget or None
    return {
        "title": str(form.get("title", "")).strip(),
        "description": str(form.get("description", "")).strip(),
        "definition": definition,
    }


def writable(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored definition without the members that only the gateway sets."""
    return {name: value for name, value in definition.items() if name not in ("former_names", "plugin")}


def lines(text: str) -> list[str]:
    """Return the lines of a text that are not empty, each once."""
    return list(dict.fromkeys(filter(None, map(str.strip, text.splitlines()))))


def preset_of(field: str, text: str) -> Any:
    """Return the JSON value of a preset's text; text that is no JSON is a string. Raises InvalidForm for what
    looks like JSON and is none.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if text[:1] in '{["':
            raise InvalidForm(field, "This is no valid JSON.") from None
        return text

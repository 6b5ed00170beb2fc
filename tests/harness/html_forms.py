"""What a browser without script submits for a form: the successful controls of HTML, with its value sanitisation.

HTML Living Standard, 4.10.21.4 "Constructing the entry list" and 4.10.5.1 (states of the type attribute).
"""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4,}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_LOCAL = re.compile(
    r"[0-9]{4,}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,3})?)?"
)


@dataclass
class _Select:
    name: str
    options: list[tuple[str, bool]] = field(default_factory=list)


class _Controls(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.items: list[tuple[str, str]] = []
        self.buttons: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self._select: _Select | None = None
        self._text: list[str] | None = None
        self._name = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        if "id" in found:
            self.ids.append(found["id"])
        for name in ("for", "aria-describedby", "data-submit-with"):
            self.references += found.get(name, "").split()
        assert "style" not in found
        assert not any(name.startswith("on") for name in found)
        name = found.get("name", "")
        if tag == "input":
            self._input(found, name)
        elif tag == "select":
            self._select = _Select(name)
        elif tag == "option" and self._select is not None:
            self._select.options.append((found["value"], "selected" in found))
        elif tag == "textarea":
            self._name, self._text = name, []
        elif tag == "button":
            self.buttons.append(name)

    def _input(self, found: dict[str, str], name: str) -> None:
        kind = found.get("type", "text")
        if kind in ("checkbox", "radio"):
            if "checked" in found:
                self._add(name, found.get("value", "on"))
        elif kind != "file":
            self._add(name, sanitized(kind, found.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "select" and self._select is not None:
            options = self._select.options
            chosen = [value for value, is_selected in options if is_selected] or [options[0][0]]
            self._add(self._select.name, chosen[-1])
            self._select = None
        elif tag == "textarea" and self._text is not None:
            # The first line end after the tag is dropped, and line ends are submitted as CRLF.
            text = "".join(self._text).removeprefix("\n").replace("\r\n", "\n").replace("\r", "\n")
            self._add(self._name, text.replace("\n", "\r\n"))
            self._text = None

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def _add(self, name: str, value: str) -> None:
        if name:
            self.items.append((name, value))


def sanitized(kind: str, value: str) -> str:
    """Return the value of an input as a browser changes it for its type."""
    if kind == "hidden":
        return value
    value = re.sub(r"[\r\n]", "", value)
    match kind:
        case "email" | "url":
            return value.strip("\t\n\f\r ")
        case "number":
            return value if _NUMBER.fullmatch(value) else ""
        case "date":
            return value if _DATE.fullmatch(value) else ""
        case "datetime-local":
            # Chromium leaves out seconds that are zero.
            return value.removesuffix(":00") if _LOCAL.fullmatch(value) and value.count(":") == 2 else value
    return value


def successful_controls(html: str) -> list[tuple[str, str]]:
    """Return the names and values that the submission of the controls in HTML has, in order."""
    parser = controls_of(html)
    return parser.items


def controls_of(html: str) -> _Controls:
    """Return what is in a form: `items`, names of `buttons`, and `ids` with the `references` to them."""
    parser = _Controls()
    parser.feed(html)
    parser.close()
    return parser

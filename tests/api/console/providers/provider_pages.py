"""Pages as a browser without script uses them, for tests of providers."""

import re
from html import unescape
from typing import Any

import httpx2

_FORM = re.compile(r"<form\b([^>]*)>(.*?)</form>", re.DOTALL)
_FIELD = re.compile(
    r"<input\b([^>]*)>|<select\b([^>]*)>(.*?)</select>|<textarea\b([^>]*)>(.*?)</textarea>", re.DOTALL
)
_ATTRIBUTE = re.compile(r'([a-z-]+)(?:="([^"]*)")?')
_OPTION = re.compile(r'<option value="([^"]*)"( selected)?')


def text_of(response: httpx2.Response) -> str:
    """Return the text of a page without elements."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.text)).split())


def form_of(response: httpx2.Response, action: str) -> dict[str, str]:
    """Return the fields of the form with this action, as a browser would submit them unchanged."""
    for attributes, content in _FORM.findall(response.text):
        if _attributes(attributes).get("action") == action:
            return _fields(content)
    raise AssertionError(f"The page has no form for {action}: {text_of(response)}")


async def submit(
    client: httpx2.AsyncClient, path: str, fields: dict[str, str], files: Any = None
) -> httpx2.Response:
    """Submit a form as multipart/form-data where it has files, else as URL-encoded fields."""
    return await client.post(path, data=fields, files=files)


def _attributes(text: str) -> dict[str, str]:
    return {name: unescape(value) for name, value in _ATTRIBUTE.findall(text)}


def _fields(content: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text, choice, options, area, value in _FIELD.findall(content):
        given = _attributes(text or choice or area)
        name = given.get("name", "")
        if choice:
            values = _OPTION.findall(options)
            found[name] = unescape(next((one for one, selected in values if selected), values[0][0]))
        elif area:
            found[name] = unescape(value.removeprefix("\n"))
        elif name and given.get("type") != "file" and (given.get("type") != "checkbox" or "checked" in given):
            found[name] = given.get("value", "")
    return found

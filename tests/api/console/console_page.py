"""Pages of the console, read without a browser."""

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import httpx2


class Page(HTMLParser):
    """The texts, links and form fields of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.links: list[str] = []
        self.buttons: list[tuple[str | None, str | None]] = []
        self.nodes = 0
        self.rows: list[str] = re.findall(r'name="tool" value="([^"]*)"', html)
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a link or a button."""
        given = dict(attrs)
        self.nodes += 1
        if tag == "a":
            self.links.append(given.get("href") or "")
        if tag == "button":
            self.buttons.append((given.get("formaction"), given.get("value")))

    @property
    def text(self) -> str:
        """The text of the page, with single spaces."""
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", self.html)).split())


def read(client: httpx2.Client, path: str, *, status: int = 200, fragment: str | None = None) -> Page:
    """Return a page, or a part of it."""
    headers = {"X-Fragment": fragment} if fragment else {}
    response = client.get(path, headers=headers)
    assert response.status_code == status, response.text
    return Page(response.text)


def post(client: httpx2.Client, path: str, **fields: Any) -> str:
    """Submit a form, and return where its response leads."""
    response = client.post(path, data=fields)
    assert response.status_code == 303, response.text
    return str(response.headers["location"])

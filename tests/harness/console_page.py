"""Pages of the console, read without a browser."""

import re
from html import unescape
from html.parser import HTMLParser


class Page(HTMLParser):
    """The texts, links and form fields of a page."""

    def __init__(self, html):
        super().__init__()
        self.html = html
        self.links = []
        self.buttons = []
        self.nodes = 0
        self.rows = re.findall(r'name="tool" value="([^"]*)"', html)
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.nodes += 1
        if tag == "a":
            self.links.append(given.get("href", ""))
        if tag == "button":
            self.buttons.append((given.get("formaction"), given.get("value")))

    @property
    def text(self):
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", self.html)).split())


def read(client, path, *, status=200, fragment=None):
    headers = {"X-Fragment": fragment} if fragment else {}
    response = client.get(path, headers=headers)
    assert response.status_code == status, response.text
    return Page(response.text)


def post(client, path, **fields):
    response = client.post(path, data=fields)
    assert response.status_code == 303, response.text
    return response.headers["location"]

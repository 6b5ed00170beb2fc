"""The pages of the console: their routes are read from the application, their addresses from links of other pages."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx2
from starlette.routing import Match, Route

from app.console.pages import PAGES

ROUTES: tuple[Route, ...] = tuple(
    route for router in PAGES for route in router.routes if isinstance(route, Route)
)
CATCH_ALL = "/console/{rest:path}"
GET_PATHS: tuple[str, ...] = tuple(
    dict.fromkeys(
        route.path for route in ROUTES if "GET" in (route.methods or ()) and route.path != CATCH_ALL
    )
)
"""The path templates of all pages."""
POST_PATHS: tuple[str, ...] = tuple(
    dict.fromkeys(route.path for route in ROUTES if "POST" in (route.methods or ()))
)
"""The path templates of all forms."""

_MAX_STATES = 6
_MAX_VISITS = 400
_SHORT_VALUE = re.compile(r"[a-z][a-z_-]{0,14}")
_LINK_ATTRIBUTES = frozenset({"href", "src", "action", "formaction"})


def template_of(path: str, method: str = "GET") -> str | None:
    """Return the path template of the route that serves a path, None where no page does."""
    for route in ROUTES:
        match, _ = route.matches({"type": "http", "path": path, "method": method, "root_path": ""})
        if match is Match.FULL:
            return None if route.path == CATCH_ALL else route.path
    return None


@dataclass(frozen=True, slots=True)
class Form:
    """What a button of a form submits: `action` is a path with its query, `button` the name and value of the button."""

    action: str
    fields: tuple[tuple[str, str], ...]
    button: tuple[str, str] | None
    page: str
    is_multipart: bool = False

    @property
    def template(self) -> str | None:
        """The path template of the route that takes it."""
        return template_of(urlsplit(self.action).path, "POST")

    @property
    def identity(self) -> tuple[str, str, str]:
        """What tells this action from others: the route, and the button; values that are long are names of things."""
        name, value = self.button or ("", "")
        return self.template or self.action, name, value if _SHORT_VALUE.fullmatch(value) else ""

    def data(self) -> dict[str, list[str]]:
        """Return the fields as they are submitted."""
        data: dict[str, list[str]] = {}
        for name, value in (*self.fields, *((self.button,) if self.button else ())):
            data.setdefault(name, []).append(value)
        return data


class _Reader(HTMLParser):
    """Reads links and forms of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.page = page
        self.links: list[str] = []
        self.forms: list[dict[str, Any]] = []
        self._by_id: dict[str, dict[str, Any]] = {}
        self._open: dict[str, Any] | None = None
        self._select: tuple[dict[str, Any], str] | None = None
        self._textarea: tuple[dict[str, Any], str] | None = None
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        for name, value in given.items():
            if (name in _LINK_ATTRIBUTES or name.startswith("data-")) and "/console" in value:
                self.links.append(urljoin(self.page, value))
        if tag == "form":
            self._open = {"attributes": given, "fields": [], "buttons": []}
            self.forms.append(self._open)
            if "id" in given:
                self._by_id[given["id"]] = self._open
        elif tag == "option" and self._select:
            self._add_option(given)
        elif "disabled" not in given:
            form = self._by_id.get(given["form"]) if "form" in given else self._open
            if form is not None:
                self._add_control(form, tag, given)

    def _add_control(self, form: dict[str, Any], tag: str, given: dict[str, str]) -> None:
        name = given.get("name", "")
        if tag == "button" or (tag == "input" and given.get("type") in ("submit", "image")):
            if given.get("type", "submit") in ("submit", "image"):
                form["buttons"].append(given)
        elif tag == "input" and name:
            form["fields"].extend(_input_fields(name, given))
        elif tag == "select" and name:
            self._select = (form, name)
        elif tag == "textarea" and name:
            self._textarea = (form, name)

    def _add_option(self, given: dict[str, str]) -> None:
        assert self._select is not None
        form, name = self._select
        others = [one for one in form["fields"] if one[0] != name]
        if "selected" in given or len(others) == len(form["fields"]):
            form["fields"] = [*others, (name, given.get("value", ""))]

    def handle_data(self, data: str) -> None:
        if self._textarea is not None:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None
        elif tag == "select":
            self._select = None
        elif tag == "textarea" and self._textarea is not None:
            form, name = self._textarea
            form["fields"].append((name, self._text))
            self._textarea, self._text = None, ""

    def read(self) -> Iterator[Form]:
        """Yield each action of each form that POSTs; what the others lead to is added to the links."""
        for form in self.forms:
            given = form["attributes"]
            for button in form["buttons"] or [{}]:
                action = urljoin(self.page, button.get("formaction", given.get("action", "")) or self.page)
                parts = urlsplit(action)
                named = (button["name"], button.get("value", "")) if button.get("name") else None
                if button.get("formmethod", given.get("method", "get")).lower() != "post":
                    pairs = [pair for pair in form["fields"] if pair[1] not in ("", "example")]
                    self.links.append(f"{parts.path}?{urlencode(pairs)}" if pairs else parts.path)
                    continue
                yield Form(
                    parts.path + (f"?{parts.query}" if parts.query else ""),
                    tuple(form["fields"]),
                    named,
                    self.page,
                    given.get("enctype") == "multipart/form-data",
                )


def _input_fields(name: str, given: dict[str, str]) -> Iterable[tuple[str, str]]:
    kind = given.get("type", "text")
    if kind in ("checkbox", "radio"):
        is_chosen = "checked" in given or name in ("tool", "id")
        return [(name, given.get("value", "on"))] if is_chosen else []
    if kind == "file":
        return []
    value = given.get("value", "")
    is_needed = "required" in given or name in ("name", "url", "typed", "tags")
    if not value and kind != "hidden" and is_needed:
        value = {
            "url": "http://127.0.0.1:9/x",
            "number": given.get("min", ""),
            "datetime-local": "",
            "date": "",
            "email": "a@example.com",
        }.get(kind, "http://127.0.0.1:9/x" if "url" in name else "example")
    return [(name, value)]


@dataclass(slots=True)
class Site:
    """What a key sees: `addresses` are those of each route, the first one without a query where there is one."""

    addresses: dict[str, list[str]] = field(default_factory=dict)
    html: dict[str, str] = field(default_factory=dict, repr=False)
    kinds: dict[str, str] = field(default_factory=dict)
    """The media types of the routes that do not respond with HTML."""
    redirects: set[str] = field(default_factory=set)
    statuses: dict[str, int] = field(default_factory=dict)
    forms: list[Form] = field(default_factory=list, repr=False)

    def actions(self) -> dict[tuple[str, str, str], Form]:
        """Return the forms by what they do, each once."""
        found: dict[tuple[str, str, str], Form] = {}
        for form in self.forms:
            if form.template is not None:
                found.setdefault(form.identity, form)
        return found


def _state(url: str) -> tuple[tuple[str, str], ...]:
    """Return what tells a state of a page from another one: the names of parameters, and short values."""
    query = parse_qsl(urlsplit(url).query)
    return tuple(sorted((name, value if _SHORT_VALUE.fullmatch(value) else "") for name, value in query))


def read_site(client: httpx2.Client, addresses: Iterable[str] = ()) -> Site:
    """Follow the links of all pages, and of `addresses`, `client` being signed in; of each route a few states
    are read.
    """
    site = Site()
    seen: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    waiting = [*addresses, *(path for path in GET_PATHS if "{" not in path)]
    visits = 0
    while waiting and visits < _MAX_VISITS:
        address = waiting.pop(0)
        parts = urlsplit(address)
        template = template_of(parts.path)
        if template is None:
            continue
        states = seen.setdefault(template, set())
        state = _state(address) if parts.query else (("", parts.path),) if "{" in template else ()
        if state in states or len(states) >= _MAX_STATES:
            continue
        states.add(state)
        visits += 1
        waiting += _read(client, site, template, address)
    for found in site.addresses.values():
        # The state without a query is the first one, and a page that is there before one that is not.
        found.sort(key=lambda one: (site.statuses[one] >= 400, "?" in one))
    return site


def _read(client: httpx2.Client, site: Site, template: str, address: str) -> list[str]:
    """Read one address, and return its links."""
    with client.stream("GET", address, headers={"Accept": "text/html"}) as response:
        kind = response.headers.get("content-type", "").split(";")[0]
        if response.is_redirect:
            site.redirects.add(template)
            return [_local(response.headers["location"], address)]
        site.statuses[address] = response.status_code
        if kind != "text/html":
            site.kinds[template] = kind
            return []
        html = response.read().decode()
    site.addresses.setdefault(template, []).append(address)
    site.html[address] = html
    reader = _Reader(address)
    reader.feed(html)
    site.forms += reader.read()
    return [_local(one, address) for one in reader.links]


def _local(url: str, page: str) -> str:
    parts = urlsplit(urljoin(page, url))
    return parts.path + (f"?{parts.query}" if parts.query else "")

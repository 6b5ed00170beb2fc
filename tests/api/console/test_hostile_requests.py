"""Requests that no page makes: hostile parameters, fields, headers and names. None of them is an error 500."""

import asyncio
import inspect
import re

import httpx2
import pytest

from app.console.forms import key_form, provider_draft
from app.console.pages import PAGES
from app.console.views import call_selection, keyset, tool_selection
from tests.harness.application import Application
from tests.harness.cases import for_each
from tests.harness.plain_http import WITHOUT_CERTIFICATES
from tests.harness.profiles import Applications

# Each asks for all pages, many times.
pytestmark = pytest.mark.time_limit(300)

TEXTS = {
    "nul": "%00",
    "invalid UTF-8": "%ff%fe",
    "lone surrogate": "%ed%a0%80",
    "hidden": "%e2%80%ae%f3%a0%81%81",
    "line ends": "a%0d%0aSet-Cookie:%20a=b",
    "markup": "%22%3e%3cscript%3ealert(1)%3c/script%3e",
    "huge number": "9" * 5_000,
    "large number": "1" + "0" * 19,
    "other digits": "%c2%b2",
    "negative": "-1",
    "long": "x" * 5_000,
    "dots": "..%2f..%2fetc",
    "first time": "0001-01-01T00:00:00Z",
    "last time": "9999-12-31T23:59:59Z",
    "offset": "0001-01-01T00:00:00%2b23:59",
    "base64": "eyJhIjpbMV19",
    "json": "%7b%22a%22:%22%5cud800%22%7d",
    "deep": "%5b" * 1_500,
    "pattern": "(%25s*)%2b%24",
}
NAMES = (
    "q", "cursor", "before", "state", "kind", "sort", "provider", "tool", "toolset", "tag", "key", "key_id", "outcome",
    "error", "interface", "source", "status", "upstream_status", "safe", "min_duration_ms", "period", "since", "until",
    "at", "follow", "view", "args", "as", "call", "replay", "import", "url", "name", "base_url", "server", "variable",
    "allow_empty", "limit", "format", "all", "next", "notice", "count", "subject", "undo", "undo_field", "undo_mac",
    "actor", "action", "object_type", "object_name", "which", "role", "scope", "expiry", "expires_on", "requests",
    "toolset_name",
)  # fmt: skip
ALONE = ("other digits", "last time")
STREAMS = ("/console/calls/stream", "/console/changes/stream")
GETS = [
    route.path
    for router in PAGES
    for route in router.routes
    if "GET" in route.methods and route.path not in STREAMS
]
HELPERS = (call_selection, keyset, tool_selection, key_form, provider_draft)


def names_of(endpoint):
    """Return the parameters that a page may read: those whose names stand in its module, or in what it uses."""
    module = inspect.getmodule(inspect.unwrap(endpoint))
    source = inspect.getsource(module)
    if "page.query" not in source:
        # The names in it are those of the API, of which the overview makes a dozen requests for each of its own.
        return ["notice"]
    source += "".join(inspect.getsource(one) for one in HELPERS if one.__name__ in source)
    return [name for name in NAMES if f'"{name}"' in source] + ["notice", "undo_mac"][: "/add" in source]


PAGES_WITH_NAMES = [
    pytest.param(route.path, names_of(route.endpoint), id=route.path)
    for router in PAGES
    for route in router.routes
    if "GET" in route.methods and route.path not in STREAMS
]
POSTS = [route.path for router in PAGES for route in router.routes if "POST" in route.methods]
NOT_NAMES = (
    "",
    "%00",
    "..",
    "%2e%2e",
    "a%2fb",
    "%ff",
    "%ed%a0%80",
    "x" * 2_000,
    "%3f%23",
    "a%0d%0ab",
    "%22%3e%3cb",
)


@pytest.fixture(scope="module")
async def application(applications: Applications) -> Application:
    return await applications.get()


@pytest.fixture(scope="module")
async def admin(application):
    client = await application.client("admin")
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Books", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {
            "/books": {
                "get": {
                    "operationId": "list",
                    "parameters": [{"name": "n", "in": "query", "schema": {"type": "integer"}}],
                    "responses": {"200": {"description": "ok"}},
                }
            }
        },
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
        "security": [{"key": []}],
    }
    made = await client.post("/providers", json={"name": "books", "source": {"document": document}})
    assert made.status_code == 201, made.text
    made = await client.post("/toolsets", json={"name": "few", "definition": {"tools": ["books.list"]}})
    assert made.status_code == 201, made.text
    return client


def with_names(path, name="books"):
    """Return a path of which each parameter is a name that exists, or is replaced by `name`."""
    found = "books.list" if path.startswith("/console/tools/") or "{tool}" in path else name
    path = path.replace("/toolsets/{name}", "/toolsets/few") if name == "books" else path
    return re.sub(r"\{[^}]*\}", found if name == "books" else name, path)


HUGE = "9" * 5_000
LARGE = "9" * 30
SURROGATE = '{"a": "\\ud800"}'
DEEP = "[" * 5_000
FORMS = [
    ("rotation with other digits", "/console/keys/a1b2c3d4e5f6/rotate", {"overlap_seconds": "²"}),
    ("rotation", "/console/keys/OWN/rotate", {"overlap_seconds": "²"}),
    ("rotation, huge", "/console/keys/OWN/rotate", {"overlap_seconds": HUGE}),
    ("rotation, large", "/console/keys/OWN/rotate", {"overlap_seconds": LARGE}),
    ("rotation, once", "/console/keys/OWN/rotate", {"overlap_seconds": "x", "once": "ключ"}),
    ("key, etag", "/console/keys/OWN/edit", {"name": "x", "etag": "ключ"}),
    ("key, line end in etag", "/console/keys/OWN/edit", {"name": "x", "etag": "a\r\nb: c"}),
    ("key, limit", "/console/keys/new", {"name": "x", "requests": HUGE}),
    ("key, once", "/console/keys/new", {"name": "x", "once": "ключ\n"}),
    ("key, expires", "/console/keys/new", {"name": "x", "expiry": "date", "expires_on": "\x00ü"}),
    ("key, nul", "/console/keys/new", {"name": "\x00", "tools": "\x00"}),
    ("toolset, budget", "/console/new-toolset", {"name": "x", "max_bytes": HUGE}),
    ("toolset, large budget", "/console/new-toolset", {"name": "x", "max_bytes": LARGE}),
    ("toolset, other digits", "/console/new-toolset", {"name": "x", "max_bytes": "٣"}),
    ("toolset, nul", "/console/new-toolset", {"name": "\x00", "title": "\x00"}),
    ("toolset, version", "/console/toolsets/few/edit", {"version": "ключ"}),
    ("toolset, preset", "/console/toolsets/few/tools/books.list", {"preset:n": DEEP}),
    ("toolset, preset surrogate", "/console/toolsets/few/tools/books.list", {"preset:n": '"\\ud800"'}),
    ("members, no toolset", "/console/toolset-members", {"tool": "books.list"}),
    ("members, dots", "/console/toolset-members", {"tool": "books.list", "toolset": ".."}),
    ("members, slash", "/console/toolset-members", {"tool": "\x00", "toolset": "few/manual"}),
    ("tools, nul", "/console/tools", {"tool": "\x00", "action": "enable"}),
    ("tools, tags", "/console/tools", {"tool": "books.list", "action": "tag", "tags": "\x00"}),
    ("tools, many", "/console/tools", {"tool": ["x"] * 4_000, "action": "enable"}),
    ("tools, query", "/console/tools", {"all": "1", "q": "\x00", "state": "x", "action": "enable"}),
    ("tool, version", "/console/tools/books.list/enabled", {"version": "9" * 5_000}),
    ("tool, edit", "/console/tools/books.list/edit", {"description": "\x00", "tags": "\x00"}),
    ("call, huge number", "/console/tools/books.list", {"do": "call", "args": f'{{"n": {LARGE}}}'}),
    ("call, digits", "/console/tools/books.list", {"do": "dry_run", "args": f'{{"n": {HUGE}}}'}),
    ("call, surrogate", "/console/tools/books.list", {"do": "dry_run", "args": SURROGATE}),
    (
        "call, surrogate, JSON",
        "/console/tools/books.list",
        {"do": "dry_run", "as": "json", "args": SURROGATE},
    ),
    ("switch, surrogate", "/console/tools/books.list", {"do": "json", "args": SURROGATE}),
    ("switch, large", "/console/tools/books.list", {"do": "json", "args": f'{{"n": {LARGE}}}'}),
    ("form, large", "/console/tools/books.list", {"do": "form", "args": f'{{"n": {LARGE}}}'}),
    ("form, large field", "/console/tools/books.list", {"do": "call", "/n": LARGE}),
    ("form, huge field", "/console/tools/books.list", {"do": "call", "/n": HUGE}),
    ("call, deep", "/console/tools/books.list", {"do": "call", "args": '{"n":' * 900 + "1" + "}" * 900}),
    (
        "call, deeper",
        "/console/tools/books.list",
        {"do": "json", "args": '{"n":' * 20_000 + "1" + "}" * 20_000},
    ),
    ("form, deep", "/console/tools/books.list", {"do": "form", "args": '{"n":' * 400 + "1" + "}" * 400}),
    ("call, key", "/console/tools/books.list", {"do": "call", "args": "{}", "key": "ключ\r\n"}),
    (
        "form, names",
        "/console/tools/books.list",
        {"do": "call", "/" * 5_000: "x", "key:/~row999999": "x", "item:": "1"},
    ),
    (
        "tool, large",
        "/console/add/tool",
        {"provider": "books", "name": "x", "url": "http://127.0.0.1/", "inputs": f'{{"minimum": {LARGE}}}'},
    ),
    (
        "tool, huge",
        "/console/add/tool",
        {"provider": "books", "name": "x", "url": "http://127.0.0.1/", "inputs": f'{{"minimum": {HUGE}}}'},
    ),
    (
        "tool, surrogate",
        "/console/add/tool",
        {"provider": "books", "name": "x", "url": "http://127.0.0.1/", "inputs": SURROGATE},
    ),
    (
        "tool, deep",
        "/console/add/tool",
        {"provider": "books", "name": "x", "url": "http://127.0.0.1/", "inputs": "[" * 100_000},
    ),
    (
        "tool, not a number",
        "/console/add/tool",
        {"provider": "books", "name": "x", "url": "http://127.0.0.1/", "inputs": '{"minimum": NaN}'},
    ),
    (
        "add, server",
        "/console/add",
        {"source": "url", "url": "http://127.0.0.1:9/", "server": HUGE, "token": "x"},
    ),
    (
        "add, large server",
        "/console/add",
        {"source": "url", "url": "http://127.0.0.1:9/", "server": LARGE, "token": "x"},
    ),
    ("add, source", "/console/add", {"source": "ftp", "url": ""}),
    ("add, bad draft", "/console/add", {"draft": "ü"}),
    ("add, paste", "/console/add", {"source": "paste", "text": DEEP}),
    (
        "add, paste surrogate",
        "/console/add",
        {"source": "paste", "text": '{"name": "x", "source": {"call_template": {"x": "\\ud800"}}}'},
    ),
    ("add, bad port", "/console/add", {"source": "grpc", "url": "grpc://a:99999999"}),
    ("add, bad host", "/console/add", {"source": "url", "url": "http://[a"}),
    (
        "add, provider without import",
        "/console/add/provider",
        {"source": "url", "url": "http://127.0.0.1:9/"},
    ),
    (
        "add, provider, dots",
        "/console/add/provider",
        {"source": "url", "url": "http://127.0.0.1:9/", "import": ".."},
    ),
    ("read only, none", "/console/add/read-only", {}),
    ("read only, nul", "/console/add/read-only", {"provider": "\x00"}),
    ("synonyms, none", "/console/search/synonyms", {}),
    ("synonyms, nul", "/console/search/synonyms", {"terms": "\x00,b", "toolset": "\x00", "back": "\x00"}),
    ("synonyms, delete none", "/console/search/synonyms/delete", {}),
    ("synonyms, delete dots", "/console/search/synonyms/delete", {"id": "../pins"}),
    ("pins, none", "/console/search/pins", {}),
    ("pins, nul", "/console/search/pins", {"query": "\x00", "tools": "\x00"}),
    ("pins, delete none", "/console/search/pins/delete", {}),
    ("usage, nul", "/console/search/usage/delete", {"tool": "\x00"}),
    ("approvals", "/console/approvals/decide", {"decision": "approve", "id": ["\x00", "x", "ü"]}),
    ("approval", "/console/approvals/%00", {"decision": "approve", "comment": "\x00"}),
    ("bodies", "/console/calls/%00/bodies", {"what": "envelope"}),
    ("provider, version", "/console/providers/books/approve", {"version": "ключ"}),
    ("settings, version", "/console/providers/books/settings", {"version": "ключ", "description": "x"}),
    (
        "settings, nul",
        "/console/providers/books/settings",
        {"version": "1", "description": "\x00", "tags": "\x00"},
    ),
    ("settings, large", "/console/providers/books/settings", {"version": "1", "/limits/timeout": LARGE}),
    ("credential, none", "/console/providers/books/credentials/key", {}),
    ("credential, other slot", "/console/providers/books/credentials/%00", {"x": "y"}),
    ("credential, delete", "/console/providers/books/credentials/%00/delete", {}),
    ("variable, dots", "/console/providers/books/variables", {"variable": "..", "value": "x"}),
    ("variable, nul", "/console/providers/books/variables", {"variable": "\x00", "value": "\x00"}),
    ("variable, delete", "/console/providers/books/variables/%2e%2e/delete", {}),
    ("check", "/console/providers/%00/check", {"probe": "1"}),
    ("delete", "/console/providers/%2e%2e/delete", {"name": ".."}),
    ("plugin", "/console/plugins/%00", {}),
    ("language", "/console/language", {"language": "xx", "back": "/console\r\nSet-Cookie: a=b"}),
    ("confirm", "/console/confirm", {"key": "\x00ü", "next": "//evil.example"}),
    ("sign-out", "/console/sign-out", {}),
]


async def test_forms_with_hostile_fields(admin):
    own = (await admin.get("/keys?limit=1")).json()["items"][0]["id"]
    failed = []
    for what, path, fields in FORMS:
        response = await admin.post(path.replace("OWN", own), data=fields)
        if response.status_code in (500, 503) or response.status_code in (301, 302, 307, 308):
            failed.append((what, response.status_code))
        location = response.headers.get("location", "/console")
        if not location.startswith("/console") or "a" in response.cookies:
            failed.append((what, location))
    assert not failed


async def test_multipart_bodies_of_odd_charsets(admin):
    for charset in (
        "undefined",
        "unicode_escape",
        "idna",
        "punycode",
        "raw_unicode_escape",
        "utf-7",
        "rot13",
        "x",
    ):
        head = {"Content-Type": f"multipart/form-data; boundary=b; charset={charset}"}
        part = 'Content-Disposition: form-data; name="{}"; filename="\\ud800"\r\n\r\n\\ud800..\xff\xfe\r\n'
        named = part.replace('; filename="\\ud800"', "").format
        body = (
            "--b\r\n"
            + "--b\r\n".join((part.format("file"), named("text"), named("id"), named("key")))
            + "--b--\r\n"
        )
        for path in (
            "/console/add",
            "/console/tools/books.list",
            "/console/search/pins/delete",
            "/console/confirm",
        ):
            response = await admin.post(path, content=body.encode("latin-1"), headers=head)
            assert response.status_code < 500, (charset, path)


async def test_sign_in_reads_small_bodies_only(application):
    origin = {"Origin": application.url, "Content-Type": "application/x-www-form-urlencoded"}
    async with httpx2.AsyncClient(
        base_url=application.url, trust_env=False, verify=WITHOUT_CERTIFICATES
    ) as client:
        response = await client.post("/console/sign-in", content=b"&" * 100_000, headers=origin)
        assert response.status_code == 413
        response = await client.post("/console/sign-in", content=b"key=a" + b"&" * 1_000, headers=origin)
        assert response.status_code == 401
        odd = {**origin, "Content-Type": "multipart/form-data; boundary=b; charset=undefined"}
        body = b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\nx\r\n--b--\r\n'
        response = await client.post("/console/sign-in", content=body, headers=odd)
        assert response.status_code < 500


async def test_parts_of_pages_that_no_page_asks_for(admin):
    for path in GETS:
        for block in ("title", "scripts", "content", "view", "results", "x", "\xff"):
            url = with_names(path)
            response = await admin.get(url, headers={"X-Fragment": block.encode("latin-1")})
            assert response.status_code < 500, (path, block)


async def test_names_that_are_none(admin):
    for path in GETS:
        for name in NOT_NAMES if "{" in path else ():
            response = await admin.get(with_names(path, name))
            assert response.status_code < 500, (path, name)


@for_each(("path", "names"), PAGES_WITH_NAMES)
async def test_pages_with_hostile_parameters(admin, path, names):
    failed = []
    texts = list(TEXTS)
    # Each text in all parameters at once, and some in each parameter alone: others may be rejected before.
    tried = [(what, tuple(names)) for what in texts]
    tried += [
        (texts[(3 * at + more) % len(texts)], (name,)) for at, name in enumerate(names) for more in range(3)
    ]
    tried += [(what, (name,)) for name in names for what in ALONE]
    for what, given in tried:
        query = "&".join(f"{name}={TEXTS[what]}&{name}={TEXTS[what]}" for name in given)
        response = await admin.get(f"{with_names(path)}?{query[:60_000]}")
        if response.status_code >= 500:
            failed.append((what, given, response.status_code))
        if response.headers.get("content-type", "").startswith("text/html"):
            assert "<script>alert" not in response.text
        assert "a" not in response.cookies
    assert not failed


async def test_heads_of_streams_take_no_place(application, admin):
    for path in STREAMS:
        for _ in range(3):
            response = await admin.request("HEAD", path, timeout=10)
            assert response.status_code == 200
    for feed in (application.services.call_feed, application.services.event_feed):
        async with asyncio.timeout(10):
            while feed._places:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)

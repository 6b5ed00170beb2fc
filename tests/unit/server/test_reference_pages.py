"""Each error class is explained: in the catalogue, at `/problems`, and in docs/errors.md; scopes likewise."""

import re
from html.parser import HTMLParser

import httpx2
import orjson
import pytest

from app.core.errors import GatewayError
from app.core.media_types import choose_media_type
from app.core.settings import Settings
from app.main import create_app
from app.security.scopes import SCOPES
from app.server import rejections
from app.server.problems.catalogue import describe_problem_types, list_error_classes
from app.server.problems.catalogue_texts import TEXTS
from app.server.reference_pages import CONTENT_SECURITY_POLICY
from scripts.reference import ACCESS_PAGE, ERRORS_PAGE, render_access, render_errors
from tests.harness.cases import for_each


@pytest.fixture(scope="module")
async def client():
    application = create_app(Settings(_env_file=None))
    transport = httpx2.ASGITransport(application)
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield client


def classes(kind=GatewayError):
    """The error tree of the application; tests may define errors, too."""
    found = [kind] if kind.__module__.startswith("app.") else []
    return found + [one for inner in kind.__subclasses__() for one in classes(inner)]


def test_every_slug_of_the_error_tree_is_in_the_catalogue():
    found = {kind.slug for kind in list_error_classes().values() if kind.__module__.startswith("app.")}
    assert found == set(TEXTS), "write the texts in app/server/problems/catalogue_texts.py"


@for_each("kind", classes, ids=lambda kind: kind.__qualname__)
def test_every_error_class_has_a_hint_of_one_sentence_and_says_whether_to_retry(kind):
    assert re.fullmatch(r"[A-Z].{15,200}\.", kind.hint), kind.hint
    assert isinstance(kind.retryable, bool)


def test_only_these_types_are_always_retryable():
    found = {one.slug for one in describe_problem_types() if one.retryable == "yes"}
    assert found == {
        "call-log-unavailable", "circuit-open", "client-timeout", "deadline-exceeded", "idempotency-running",
        "origin-busy", "overloaded", "rate-limited", "request-timeout", "stopping", "too-many-requests", "unavailable",
    }  # fmt: skip


@for_each("found", describe_problem_types, ids=lambda found: found.slug)
def test_every_problem_type_has_remedies_and_a_complete_example(found):
    assert found.explanation.endswith(".")
    assert found.remedies
    assert all(remedy.endswith(".") for remedy in found.remedies)
    assert {"type", "title", "status", "detail", "hint", "retryable", "documentation_url"} <= set(
        found.example
    )
    assert found.example["type"] == found.type


def test_rejections_by_the_http_server_are_problems_with_a_hint():
    sent = [one for one in vars(rejections).values() if isinstance(one, rejections.Rejection) and one.body]
    assert len(sent) == 14
    for rejection in sent:
        problem = orjson.loads(rejection.body)
        assert problem["status"] == rejection.status
        assert problem["hint"]
        assert problem["retryable"] is (rejection.status in (408, 429, 503))


def test_errors_page_is_up_to_date():
    assert ERRORS_PAGE.read_text() == render_errors(), "run `make reference`"


def test_access_page_is_up_to_date():
    assert ACCESS_PAGE.read_text() == render_access(), "run `make reference`"


@for_each(
    ("accept", "expected"),
    [
        ("*/*", "a/json"),
        ("", "a/json"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),
        ("text/markdown", "text/markdown"),
        ("text/*;q=0.5, a/json;q=0.4", "text/html"),
        ("text/html;q=0, */*;q=0.1", "a/json"),
        ("image/png", "a/json"),
        ("text/html;q=x", "a/json"),
    ],
)
def test_accept_chooses_the_media_type(accept, expected):
    assert choose_media_type(accept, ("a/json", "text/html", "text/markdown")) == expected


class Page(HTMLParser):
    """The elements and links of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.links = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.links += [value for name, value in attrs if name in ("href", "src")]


PATHS = [
    "/problems",
    "/scopes",
    *(f"/problems/{slug}" for slug in sorted(TEXTS)),
    *(f"/scopes/{one}" for one in SCOPES),
]


@for_each("path", PATHS)
async def test_pages_are_html_without_script(client, path):
    html = await client.get(path, headers={"Accept": "text/html,*/*;q=0.8"})
    assert html.status_code == 200
    assert html.headers["content-type"] == "text/html; charset=utf-8"
    assert html.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    page = Page(html.text)
    assert not [tag for tag, attrs in page.elements if tag in ("script", "style") or "style" in attrs]
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on")]
    assert all(link.startswith("/") for link in page.links)


@for_each("path", PATHS)
async def test_pages_are_json_unless_something_else_is_accepted(client, path):
    data = await client.get(path)
    assert data.headers["content-type"] == "application/json"
    assert data.headers["vary"] == "Accept"
    assert data.json()


@for_each("path", PATHS)
async def test_pages_are_markdown(client, path):
    text = await client.get(path, headers={"Accept": "text/markdown"})
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert text.text.startswith(("# ", "| "))


async def test_links_of_the_lists_lead_to_pages(client):
    for path in ("/problems", "/scopes"):
        page = Page((await client.get(path, headers={"Accept": "text/html"})).text)
        links = [link for link in page.links if link.startswith(path + "/")]
        assert links
        for link in links:
            assert (await client.get(link)).status_code == 200


async def test_an_unknown_page_is_a_404_that_suggests_others(client):
    problem = (await client.get("/problems/not-fuond")).json()
    assert (problem["status"], problem["suggestions"][0]) == (404, "not-found")
    problem = (await client.get("/scopes/tools:cal")).json()
    assert (problem["status"], problem["suggestions"][0]) == (404, "tools:call")
    assert problem["documentation_url"] == "/problems/not-found"


async def test_a_scope_lists_its_operations(client):
    assert (await client.get("/scopes/calls:bodies")).json()["operations"] == [
        "GET /calls/{call_id}/bodies",
        "GET /calls/{call_id}/envelope",
    ]
    deciding = (await client.get("/scopes/approvals:decide")).json()["operations"]
    assert {"GET /approvals", "POST /approvals/{id}/approve"} <= set(deciding)
    assert "POST /tools/{name}/call" in (await client.get("/scopes/tools:call")).json()["operations"]

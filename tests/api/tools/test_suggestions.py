"""Unknown names get similar ones, only from what the API key may see; problems say whether to retry."""

import pytest

from tests.api.tools.conftest import BASE_URL
from tests.harness.cases import for_each

SECRETIVE = "treasury.searchBooks"


@pytest.fixture
async def shelves(api, upstream):
    """Two providers with similar tools, and one with a tag."""
    for name, tags in (("library", ["public"]), ("treasury", [])):
        provider = await api.provider(name, tags=tags)
        for tool in ("searchBooks", "addBook"):
            await api.tool(provider, tool, {"url": f"{upstream.url}/{tool}"})
    return api


async def problem_of(client, method, path, **options):
    response = await client.request(method, path, **options)
    problem = response.json()
    assert response.headers["content-type"] == "application/problem+json", response.text
    assert problem["documentation_url"].startswith(f"{BASE_URL}/")
    assert isinstance(problem["retryable"], bool)
    return problem


@for_each(
    ("method", "path"),
    [
        ("POST", "/tools/library.serchBooks/call"),
        ("POST", "/tools/library.serchBooks/call?dry_run=true"),
        ("GET", "/tools/library.serchBooks"),
        ("PATCH", "/tools/library.serchBooks"),
        ("DELETE", "/tools/library.serchBooks"),
    ],
)
async def test_an_unknown_tool_gets_similar_names(shelves, method, path):
    client = await shelves.client("admin")
    problem = await problem_of(client, method, path, json={})
    assert problem["suggestions"][0] == "library.searchBooks"
    assert problem["hint"].startswith("Did you mean `library.searchBooks`")
    assert (problem["status"], problem["retryable"]) == (404, False)


@pytest.mark.parametrize("limits", [{"providers": ["library"]}, {"tags": ["public"]}])
async def test_names_that_a_limited_key_may_not_see_are_not_suggested(shelves, limits):
    client = await shelves.client("tools:read", "tools:call", "providers:read", **limits)
    unknown = await problem_of(client, "POST", "/tools/treasury.serchBooks/call", json={})
    hidden = await problem_of(client, "POST", f"/tools/{SECRETIVE}/call", json={})
    for problem in (unknown, hidden):
        assert "treasury" not in str({**problem, "detail": ""})
        assert (
            problem["suggestions"] == ["library.searchBooks"]
            or "library.searchBooks" in problem["suggestions"]
        )
    # A tool that the key may not see gets the same response as one that does not exist.
    assert {**hidden, "detail": "", "call_id": ""} == {**unknown, "detail": "", "call_id": ""}
    assert hidden["detail"] == f"There is no tool {SECRETIVE}."
    for path in ("/providers/tresury", "/providers/treasury", "/providers/tresury/utcp"):
        problem = await problem_of(client, "GET", path)
        assert "suggestions" not in problem
        assert "`treasury`" not in problem["hint"]


async def test_a_key_that_may_not_list_gets_no_suggestions(shelves):
    client = await shelves.client("tools:call")
    problem = await problem_of(client, "POST", "/tools/library.serchBooks/call", json={})
    assert "suggestions" not in problem
    client = await shelves.client("credentials:write")
    problem = await problem_of(client, "DELETE", "/providers/libary/variables/x")
    assert "suggestions" not in problem


async def test_an_unknown_provider_gets_similar_names(shelves):
    client = await shelves.client("admin")
    for method, path in (
        ("GET", "/providers/libary"),
        ("DELETE", "/providers/libary"),
        ("POST", "/providers/libary/refresh"),
        ("GET", "/providers/libary/variables"),
        ("GET", "/providers/libary/utcp"),
    ):
        problem = await problem_of(client, method, path)
        assert problem["suggestions"] == ["library"], path


async def test_an_unknown_variable_gets_similar_names(shelves):
    client = await shelves.client("admin")
    assert (
        await client.put("/variables/API_REGION", json={"value": "eu", "secret": False})
    ).status_code == 201
    problem = await problem_of(client, "DELETE", "/variables/API_REGOIN")
    assert problem["hint"] == "Did you mean `API_REGION`?"


async def test_an_unknown_scope_gets_a_similar_one(shelves):
    client = await shelves.client("admin")
    problem = await problem_of(client, "POST", "/keys", json={"name": "x", "scopes": ["tools:cal"]})
    assert problem["errors"][0]["pointer"] == "/scopes/0"
    assert problem["errors"][0]["detail"].endswith(" Did you mean `tools:call`?")


async def test_an_unknown_member_of_a_body_gets_a_similar_one(shelves):
    client = await shelves.client("admin")
    problem = await problem_of(client, "POST", "/keys", json={"name": "x", "scope": ["tools:call"]})
    found = {error["pointer"]: error["detail"] for error in problem["errors"]}
    assert found["/scope"] == "This member is unknown. Did you mean `scopes`?"
    problem = await problem_of(client, "PATCH", "/providers/library", json={"limits": {"totl": 1}})
    assert problem["errors"][0]["detail"] == "This member is unknown. Did you mean `total`?"


async def test_a_missing_scope_is_explained_on_its_own_page(shelves):
    client = await shelves.client("tools:read")
    problem = await problem_of(client, "GET", "/keys")
    assert problem["missing_scopes"] == ["keys:manage"]
    assert problem["documentation_url"] == f"{BASE_URL}/scopes/keys:manage"
    assert problem["hint"] == (
        "Use an API key with the scope `keys:manage`, or ask whoever manages the keys for one."
    )


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "retryable"),
    [
        ("GET", "/respond/503/json", {}, 502, True),
        ("POST", "/respond/503/json", {}, 502, False),
        ("GET", "/respond/503/json", {"Idempotency-Key": "k-1"}, 502, False),
        ("POST", "/respond/429/json", {}, 429, True),
        ("GET", "/respond/404/json", {}, 404, False),
        ("GET", "/respond/500/json", {}, 502, False),
        ("GET", "/slow", {"X-Timeout-Ms": "300"}, 504, True),
        ("POST", "/slow-post", {"X-Timeout-Ms": "300"}, 504, False),
    ],
)
async def test_an_upstream_error_says_whether_to_retry(
    api, upstream, method, path, headers, status, retryable
):
    provider = await api.provider("api", limits={"attempts": 1, "breaker_failures": 0})
    await api.tool(provider, "one", {"http_method": method, "url": upstream.url + path})
    client = await api.client()
    response = await client.post("/tools/api.one/call", json={}, headers=headers)
    assert (response.status_code, response.json()["retryable"]) == (status, retryable), response.text


async def test_an_upstream_that_is_not_listening_was_sent_nothing(api):
    provider = await api.provider("api", limits={"attempts": 1})
    await api.tool(provider, "one", {"http_method": "POST", "url": "http://127.0.0.1:9/x"})
    problem = (await (await api.client()).post("/tools/api.one/call", json={})).json()
    assert (problem["status"], problem["retryable"]) == (502, True)

"""POST /tools/{name}/call: requests, responses and records."""

import asyncio
import base64

import httpx2
import orjson
import pytest

from tests.harness.cases import for_each


@pytest.fixture
async def provider(api):
    return await api.provider("api", tags=["public"])


async def responding_tool(api, provider, upstream, kind, status=200):
    await api.tool(provider, f"{kind}{status}", {"url": f"{upstream.url}/respond/{status}/{kind}"})
    return f"/tools/api.{kind}{status}/call"


@pytest.fixture
async def json_tool(api, provider, upstream):
    """The path of a call of a tool that responds with JSON."""
    return await responding_tool(api, provider, upstream, "json")


async def test_a_call_returns_the_upstreams_own_response(api, provider, upstream):
    path = await responding_tool(api, provider, upstream, "hal")
    client = await api.client()
    response = await client.post(path, json={})
    assert response.status_code == 200
    assert response.content == b'{"a": 1}'
    assert response.headers["content-type"] == "application/hal+json; charset=utf-8"
    assert response.headers["x-upstream-status"] == "200"
    assert response.headers["etag"] == '"1"'
    assert response.headers["link"] == '</next>; rel="next"'
    assert "set-cookie" not in response.headers
    assert "dur=" in response.headers["server-timing"]
    record = (await api.calls())[0]
    assert record["id"] == response.headers["x-call-id"]
    assert (record["outcome"], record["tool"], record["provider"]) == ("ok", f"api.{'hal200'}", "api")
    assert (record["request_bytes"], record["response_bytes"], record["upstream_status"]) == (2, 8, 200)


async def test_canonical_name_and_alias_and_an_empty_body(api, provider, upstream):
    await api.tool(provider, "echo", {"url": f"{upstream.url}/echo"})
    client = await api.client()
    for name in ("api.echo", "api_echo"):
        assert (await client.post(f"/tools/{name}/call")).json()["path"] == "/echo"


async def test_arguments_reach_their_places(api, provider, upstream):
    schema = {"type": "object", "properties": {"id": {"type": "string"}, "body": {"type": "object"}}}
    template = {"http_method": "POST", "url": f"{upstream.url}/pets/{{id}}"}
    await api.tool(provider, "update", template, inputs=schema)
    client = await api.client()
    sent = {"id": "a/b ?", "body": {"deep": [True, None]}, "n": 5}
    echoed = (await client.post("/tools/api.update/call", json=sent)).json()
    assert echoed["path"] == "/pets/a%2Fb%20%3F?n=5"
    assert orjson.loads(echoed["body"]) == {"deep": [True, None]}


@for_each(
    ("kind", "expected"),
    [
        ("json", {"a": 1}),
        ("hal", {"a": 1}),
        ("problem", {"detail": "no"}),
        ("text", "grüß"),
        ("latin", "grüß"),
        ("html", "<script>alert(1)</script>"),
        ("binary", {"media_type": "image/png", "base64": base64.b64encode(b"\x89PNG\x00\xff").decode()}),
        ("empty", None),
        ("emptyjson", None),
        ("nojson", "<oops>"),
    ],
)
async def test_a_client_that_accepts_only_json_always_gets_json(api, provider, upstream, kind, expected):
    path = await responding_tool(api, provider, upstream, kind)
    client = await api.client()
    response = await client.post(path, json={}, headers={"Accept": "application/json"})
    assert response.headers["content-type"] == "application/json"
    assert response.json() == expected


@pytest.mark.parametrize(
    "accept", ["*/*", "application/json, */*;q=0.1", "text/plain", "text/html,application/json,text/*"]
)
async def test_other_clients_get_text_as_it_is(api, provider, upstream, accept):
    path = await responding_tool(api, provider, upstream, "text")
    client = await api.client()
    response = await client.post(path, json={}, headers={"Accept": accept})
    assert response.content == "grüß".encode()
    assert response.headers["content-type"] == "text/plain; charset=utf-8"


async def test_scripts_of_an_upstream_cannot_run_at_the_origin_of_the_gateway(api, provider, upstream):
    path = await responding_tool(api, provider, upstream, "html")
    headers = (await (await api.client()).post(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in headers["content-security-policy"]


@for_each(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"{} {}", {}, 400),
        (b"NaN", {}, 400),
        (b"\xff", {}, 400),
        (b"[" * 100_000, {}, 413),
        (b"[" * 5_000, {}, 400),
        (b"[]", {}, 422),
        (b"null", {}, 422),
        (b'"x"', {}, 422),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        (b"{}", {"Content-Type": "application/vnd.api+json; charset=utf-8"}, 200),
        (b"", {"Content-Type": "text/plain"}, 200),
        (b'{"x": "' + b"y" * 65536 + b'"}', {}, 413),
    ],
)
async def test_bodies_that_are_not_arguments_are_rejected(api, json_tool, body, headers, status):
    client = await api.client()
    response = await client.post(json_tool, content=body, headers=headers)
    assert response.status_code == status
    if status != 200:
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["call_id"] == response.headers["x-call-id"]


async def test_a_body_without_length_is_bounded_too(api, provider, upstream):
    path = await responding_tool(api, provider, upstream, "json")

    async def endless():
        for _ in range(100):
            yield b"x" * 10_000

    client = await api.client()
    assert (await client.post(path, content=endless())).status_code == 413


async def test_invalid_arguments_name_every_error_and_send_nothing(api, provider, upstream):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n", "m"]}
    await api.tool(provider, "strict", {"url": f"{upstream.url}/x"}, inputs=schema)
    client = await api.client()
    response = await client.post("/tools/api.strict/call", json={"n": "sk-secret"})
    assert response.status_code == 422
    assert {error["pointer"] for error in response.json()["errors"]} == {"/n", "/m"}
    assert "sk-secret" not in response.text
    assert upstream.requests == []
    assert (await api.calls())[0]["outcome"] == "invalid-arguments"


@for_each("status", [400, 404, 409, 422, 429])
async def test_an_upstreams_4xx_retains_its_status(api, provider, upstream, status):
    path = await responding_tool(api, provider, upstream, "json", status)
    response = await (await api.client()).post(path)
    assert response.status_code == status
    assert response.headers["x-error-source"] == "upstream"
    assert response.headers["x-upstream-status"] == str(status)
    assert response.json()["upstream_body"] == {"a": 1}


@for_each("status", [301, 401, 403, 500, 503])
async def test_other_upstream_rejections_become_502(api, provider, upstream, status):
    path = await responding_tool(api, provider, upstream, "json", status)
    response = await (await api.client()).post(path)
    assert response.status_code == 502
    assert response.headers["x-upstream-status"] == str(status)
    record = (await api.calls())[0]
    assert (record["status"], record["upstream_status"]) == (502, status)


@for_each("name", ["api.nothing", "nothing", "%00", "a%20b", "-x", "x" * 201, "..%2f"])
async def test_an_unknown_tool_is_not_found(api, provider, name):
    response = await (await api.client()).post(f"/tools/{name}/call", json={})
    assert response.status_code == 404
    assert response.json()["type"].endswith(":not-found")


async def test_an_invisible_tool_looks_like_one_that_does_not_exist(api, provider, upstream):
    path = await responding_tool(api, provider, upstream, "json")
    unknown = await (await api.client()).post("/tools/api.json999/call")
    for limits in ({"providers": ["other"]}, {"tags": ["internal"]}, {"providers": []}):
        client = await api.client(**limits)
        response = await client.post(path)
        assert response.status_code == 404
        assert response.json()["detail"] == unknown.json()["detail"].replace("json999", "json200")
        assert (await client.get("/tools")).json()["items"] == []
        assert (await client.get("/tools/api.json200")).status_code == 404
    for limits in ({"providers": ["api"]}, {"tags": ["public"]}):
        assert (await (await api.client(**limits)).post(path)).status_code == 200


async def test_a_disabled_tool_cannot_be_called(api, provider, upstream):
    await responding_tool(api, provider, upstream, "json")
    writer = await api.client("admin")
    client = await api.client()
    assert (await client.post("/tools/api.json200/call")).status_code == 200
    await writer.patch("/tools/api.json200", json={"enabled": False})
    assert (await client.post("/tools/api.json200/call")).status_code == 404
    await writer.patch("/tools/api.json200", json={"enabled": None})
    assert (await client.post("/tools/api.json200/call")).status_code == 200


async def test_a_key_without_the_scope_is_denied_and_no_key_too(api, provider, upstream):
    path = await responding_tool(api, provider, upstream, "json")
    assert (await (await api.client("tools:read")).post(path)).status_code == 403
    client = await api.client()
    client.headers.pop("Authorization")
    assert (await client.post(path)).status_code == 401


async def test_credentials_are_attached_last_and_only_for_their_origin(api, provider, upstream):
    await api.credential(
        provider,
        "key",
        "api_key",
        {"value": "Key ${PART}"},
        origins=[upstream.url],
        public={"location": "header", "name": "X-Key"},
        variables=["PART"],
    )
    await api.variable("PART", "s3cret-part", provider=provider)
    security = [[{"slot": "key", "scopes": []}]]
    await api.tool(
        provider, "keyed", {"url": f"{upstream.url}/k", "header_fields": ["X-Key"]}, security=security
    )
    await api.tool(provider, "elsewhere", {"url": "http://127.0.0.1:9/k"}, security=security)
    client = await api.client()
    await client.post("/tools/api.keyed/call", json={"X-Key": "mine"})
    assert upstream.requests[0][2]["X-Key"] == "Key s3cret-part"
    rejected = await client.post("/tools/api.elsewhere/call")
    assert rejected.status_code == 403
    assert rejected.json()["type"] == "urn:utcp-gateway:problem:credential-not-allowed"
    assert "credential" in rejected.json()["title"]
    assert "s3cret" not in rejected.text


async def test_a_missing_credential_is_named(api, provider, upstream):
    await api.tool(
        provider, "keyed", {"url": f"{upstream.url}/k"}, security=[[{"slot": "main", "scopes": []}]]
    )
    response = await (await api.client()).post("/tools/api.keyed/call")
    assert response.status_code == 424
    assert response.json()["slots"] == ["main"]


async def test_a_rejected_token_is_fetched_again_once(api, provider, upstream):
    await api.credential(
        provider,
        "oauth",
        "oauth2",
        {"client_id": "id", "client_secret": "client-secret"},
        origins=[upstream.url],
        public={"token_url": f"{upstream.url}/token"},
    )
    await api.tool(
        provider, "guarded", {"url": f"{upstream.url}/guarded"}, security=[[{"slot": "oauth", "scopes": []}]]
    )
    client = await api.client()
    assert (await client.post("/tools/api.guarded/call")).status_code == 200
    assert (await client.post("/tools/api.guarded/call")).status_code == 200
    assert upstream.tokens == 1
    upstream.accepted = "token-2"
    assert (await client.post("/tools/api.guarded/call")).status_code == 200
    assert upstream.tokens == 2
    upstream.accepted = "never"
    rejected = await client.post("/tools/api.guarded/call")
    assert (rejected.status_code, upstream.tokens) == (502, 3)
    assert "token-3" not in rejected.text


async def test_the_total_timeout_of_a_call_includes_fetching_its_token(api, upstream):
    provider = await api.provider("api", limits={"total": 0.3})
    await api.credential(
        provider,
        "oauth",
        "oauth2",
        {"client_id": "id", "client_secret": "client-secret"},
        origins=[upstream.url],
        public={"token_url": f"{upstream.url}/slow-token"},
    )
    await api.tool(
        provider, "late", {"url": f"{upstream.url}/x"}, security=[[{"slot": "oauth", "scopes": []}]]
    )
    client = await api.client()
    # The token endpoint would take 30 s.
    async with asyncio.timeout(15):
        response = await client.post("/tools/api.late/call")
    assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (504, "upstream-timeout")
    assert "token" in response.json()["detail"]


async def test_a_dry_run_shows_the_request_and_sends_nothing(api, provider, upstream):
    await api.credential(
        provider,
        "oauth",
        "oauth2",
        {"client_id": "id", "client_secret": "client-secret"},
        origins=[upstream.url],
        public={"token_url": f"{upstream.url}/token"},
    )
    await api.tool(
        provider,
        "guarded",
        {"http_method": "POST", "url": f"{upstream.url}/g/{{id}}"},
        security=[[{"slot": "oauth", "scopes": []}]],
    )
    client = await api.client()
    response = await client.post("/tools/api.guarded/call?dry_run=true", json={"id": 5, "body": {"a": 1}})
    assert response.json() == {
        "method": "POST",
        "url": f"{upstream.url}/g/5",
        "headers": {"Content-Type": "application/json", "Authorization": "***"},
        "body": {"a": 1},
    }
    assert (upstream.tokens, upstream.requests) == (0, [])
    assert await api.calls() == []
    for query in (
        "dry_run=perhaps",
        "dry_run=true&dry_run=false",
        "dry_run=false&dry_run=true",
        "dry_run=&dry_run=",
    ):
        assert (await client.post(f"/tools/api.guarded/call?{query}")).status_code == 422
    assert (upstream.tokens, upstream.requests) == (0, [])


async def test_variables_of_a_custom_tools_template_are_filled_in(api, provider, upstream):
    await api.variable("HOST", upstream.url, secret=False)
    await api.variable("VERSION", "tenant", secret=False)
    await api.variable("VERSION", "own", provider=provider, secret=False)
    await api.tool(provider, "filled", {"url": "${HOST}/$VERSION/${FROM_ENV}"})
    client = await api.client()
    assert (await client.post("/tools/api.filled/call")).json()["path"] == "/own/env-value"
    await api.tool(provider, "unset", {"url": f"{upstream.url}/${{OTHER}}"})
    unset = await client.post("/tools/api.unset/call")
    assert (unset.status_code, unset.json()["variables"]) == (422, ["OTHER"])
    await api.variable("OTHER", "now", provider=provider, secret=False)
    assert (await client.post("/tools/api.unset/call")).json()["path"] == "/now"


async def test_a_template_from_openapi_is_never_substituted(api, provider, upstream):
    await api.variable("count", "leaked", secret=False)
    await api.tool(provider, "counted", {"url": f"{upstream.url}/users/$count", "parameters": []})
    response = await (await api.client()).post("/tools/api.counted/call")
    assert response.json()["path"] == "/users/$count"


async def test_a_tool_that_cannot_be_compiled_affects_no_other(api, provider, upstream):
    await api.tool(provider, "broken", {"url": f"{upstream.url}/{{id", "parameters": "nonsense"})
    await api.tool(provider, "schema", {"url": f"{upstream.url}/x"}, inputs={"$ref": "http://127.0.0.1:9/s"})
    await api.tool(provider, "fine", {"url": f"{upstream.url}/fine"})
    client = await api.client()
    broken = await client.post("/tools/api.broken/call")
    assert (broken.status_code, broken.json()["type"]) == (422, "urn:utcp-gateway:problem:invalid-input")
    assert (await client.post("/tools/api.schema/call")).status_code == 422
    assert (await client.post("/tools/api.fine/call")).status_code == 200


async def test_a_client_disconnect_before_the_response_ends_the_upstream_call(api, provider, upstream):
    await api.tool(provider, "slow", {"url": f"{upstream.url}/slow"})
    client = await api.client()
    calling = asyncio.create_task(client.post("/tools/api.slow/call"))
    await upstream.arrived.wait()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await upstream.left.wait()
    assert (await api.recorded_call())["outcome"] == "cancelled"


async def test_a_client_disconnect_ends_the_upstream_stream(api, provider, upstream):
    await api.tool(provider, "drip", {"url": f"{upstream.url}/drip"})
    client = await api.client()
    async with client.stream("POST", "/tools/api.drip/call") as response:
        async for piece in response.aiter_bytes():
            assert piece.startswith(b"x")
            break
    await upstream.left.wait()
    assert (await api.recorded_call())["outcome"] == "cancelled"


async def test_a_stream_is_passed_on_as_it_arrives(api, provider, upstream):
    await api.tool(provider, "held", {"url": f"{upstream.url}/in-two-parts"})
    client = await api.client()
    async with asyncio.timeout(15), client.stream("POST", "/tools/api.held/call") as response:
        pieces = response.aiter_bytes()
        # The upstream has not sent the rest.
        received = await anext(pieces)
        upstream.second_part.set()
        async for piece in pieces:
            received += piece
    assert received == b"x" * 30
    assert (await api.calls())[0]["response_bytes"] == 30


async def test_an_upstream_that_aborts_a_stream_aborts_the_response(api, provider, upstream):
    await api.tool(provider, "broken", {"url": f"{upstream.url}/broken"})
    client = await api.client()
    with pytest.raises(httpx2.RemoteProtocolError):
        await client.post("/tools/api.broken/call")
    assert (await api.calls())[0]["outcome"].startswith("upstream-")


async def test_a_small_truncated_response_is_a_problem(api, provider, upstream):
    await api.tool(provider, "broken", {"url": f"{upstream.url}/broken?length=100"})
    response = await (await api.client()).post("/tools/api.broken/call")
    assert response.status_code == 502
    assert response.json()["call_id"] == response.headers["x-call-id"]


async def test_text_too_large_to_wrap_is_rejected_and_passes_raw(api, provider, upstream):
    big = f"{upstream.url}/drip?size=1000000&count=18&pause=0"
    await api.tool(provider, "big", {"url": big})
    await api.tool(provider, "bigjson", {"url": f"{big}&type=application/json"})
    client = await api.client()
    response = await client.post("/tools/api.big/call", headers={"Accept": "application/json"})
    assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (502, "response-too-large")
    assert len((await client.post("/tools/api.big/call")).content) == 18_000_000
    streamed = await client.post("/tools/api.bigjson/call", headers={"Accept": "application/json"})
    assert len(streamed.content) == 18_000_000


async def test_the_first_call_of_many_at_once_compiles_once_and_all_succeed(api, provider, upstream):
    path = await responding_tool(api, provider, upstream, "json")
    client = await api.client()
    replies = await asyncio.gather(*(client.post(path) for _ in range(40)))
    assert {reply.status_code for reply in replies} == {200}
    assert len(await api.calls()) == 40

"""Redirects of upstreams, over REST: followed within the origin, and the result where the operation declares them."""

from tests.harness.cases import for_each


async def test_a_redirect_is_followed_in_one_recorded_call(api, upstream):
    provider = await api.provider("api")
    await api.tool(provider, "moved", {"url": f"{upstream.url}/redirect", "http_method": "POST"})
    client = await api.client()
    response = await client.post(
        "/tools/api.moved/call?", json={"status": 307, "to": "/there", "body": {"a": 1}}
    )
    assert (response.status_code, response.headers["x-upstream-status"]) == (200, "200")
    assert response.json() == {"method": "POST", "path": "/there", "body": '{"a":1}'}
    (record,) = await api.calls()
    assert (record["outcome"], record["attempts"], record["upstream_status"]) == ("ok", 1, 200)


async def test_a_declared_redirect_is_the_result_with_its_location(api, upstream):
    provider = await api.provider("api")
    template = {"url": f"{upstream.url}/redirect", "response": {"redirects": ["302"]}}
    await api.tool(provider, "archive", template, outputs={"type": "object"})
    client = await api.client()
    arguments = {"status": 302, "to": "https://files.example/a.zip?signature=abc"}
    response = await client.post(
        "/tools/api.archive/call", json=arguments, headers={"Prefer": "validate-response"}
    )
    assert (response.status_code, response.headers["x-upstream-status"]) == (200, "302")
    assert response.headers["location"] == arguments["to"]
    (record,) = await api.calls()
    assert (record["outcome"], record["upstream_status"]) == ("ok", 302)


async def test_the_body_of_a_declared_redirect_is_not_decoded_by_the_schema_of_the_success(api, upstream):
    provider = await api.provider("api")
    response = {"redirects": ["302"], "content_type": "text/plain", "schema": {"type": "integer"}}
    await api.tool(provider, "archive", {"url": f"{upstream.url}/redirect?text=7", "response": response})
    received = await (await api.client()).post(
        "/tools/api.archive/call",
        json={"status": 302, "to": "/there"},
        headers={"Prefer": "decode-response, validate-response"},
    )
    assert received.headers["x-upstream-status"] == "302"
    assert received.headers["content-type"].startswith("text/plain")


@for_each("status", [302, 307])
async def test_a_redirect_to_another_origin_is_an_error_that_says_where_it_pointed(api, upstream, status):
    provider = await api.provider(f"api{status}")
    await api.tool(provider, "moved", {"url": f"{upstream.url}/redirect"})
    arguments = {"status": status, "to": "https://elsewhere.example/v2?token=abcdefgh"}
    response = await (await api.client()).post(f"/tools/api{status}.moved/call", json=arguments)
    assert (response.status_code, response.json()["upstream_status"]) == (502, status)
    assert "https://elsewhere.example/v2" in response.json()["detail"]
    assert "abcdefgh" not in response.json()["detail"]
    assert len(upstream.requests) == 1
    upstream.requests.clear()


async def test_a_call_that_a_303_says_was_processed_is_not_repeated_with_a_new_token(api, upstream):
    provider = await api.provider("api")
    secret = {"client_id": "id", "client_secret": "client-secret"}
    public = {"token_url": f"{upstream.url}/token"}
    await api.credential(provider, "oauth", "oauth2", secret, origins=[upstream.url], public=public)
    await api.tool(
        provider,
        "create",
        {"url": f"{upstream.url}/redirect", "http_method": "POST"},
        security=[[{"slot": "oauth", "scopes": []}]],
    )
    upstream.accepted = "no-token"
    arguments = {"status": 303, "to": "/guarded", "body": {}}
    response = await (await api.client()).post("/tools/api.create/call", json=arguments)
    assert response.json()["type"].endswith(":upstream-unauthorized")
    assert response.json()["retryable"] is False
    assert [(method, path.partition("?")[0]) for method, path, _, _ in upstream.requests] == [
        ("POST", "/redirect")
    ]

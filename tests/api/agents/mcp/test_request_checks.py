"""Every check of a request, in its order: the status and the code are exact."""

import asyncio
import base64
import json
import socket

import pytest

from app.core.settings import Settings
from tests.harness.application import run_application
from tests.harness.cases import for_each
from tests.harness.mcp_requests import CAPABILITIES_KEY, MODERN, VERSION_KEY, McpClient, error_of

META = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}}
MODERN_HEADERS = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}


def body(**members):
    return json.dumps(
        {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": META}} | members
    )


@for_each("host", ["127.0.0.1:{port}", "localhost", "localhost:{port}", "[::1]:9", "gateway.example"])
async def test_hosts_of_loopback_and_the_public_url_are_admitted(mcp, host):
    named = host.replace("{port}", str(mcp.http.base_url.port))
    assert (await mcp.modern("server/discover", headers={"Host": named})).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example"]
)
async def test_other_hosts_are_rejected_on_loopback(mcp, host):
    response = await mcp.modern("server/discover", headers={"Host": host})
    assert response.status_code == 403
    assert "ALLOWED_HOSTS" in response.json()["hint"]


@pytest.mark.parametrize(
    "origin", ["http://localhost", "http://localhost:5173", "https://127.0.0.1:1", "https://gateway.example"]
)
async def test_origins_of_loopback_and_the_public_url_are_admitted(mcp, origin):
    assert (await mcp.modern("server/discover", headers={"Origin": origin})).status_code == 200


@for_each(
    "origin",
    [
        "https://evil.example", "null", "", "http://localhost.evil.example", "http://localhost@evil.example",
        "https://gateway.example.evil.example", "ftp://localhost", "http://localhost/path",
    ],
)  # fmt: skip
async def test_other_origins_are_rejected_before_the_key_is_read(mcp, origin):
    headers = {"Origin": origin, "Authorization": "Bearer no-key"}
    response = await mcp.modern("server/discover", headers=headers)
    assert response.status_code == 403
    assert "CORS_ORIGINS" in response.json()["hint"]


async def test_a_request_without_a_valid_key_is_rejected_whatever_it_is(api):
    async with await _without_key(api) as http:
        client = McpClient(http)
        for response in (
            await client.raw("no json"), await client.modern("initialize"), await http.get("/mcp"),
        ):  # fmt: skip
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"


async def _without_key(api):
    client = await api.client()
    del client.headers["Authorization"]
    return client


@for_each("method", ["GET", "DELETE"])
@for_each("path", ["/mcp", "/mcp/all", "/mcp/search"])
async def test_other_methods_than_post_are_rejected(mcp, method, path):
    response = await mcp.http.request(method, path, headers={"Accept": "text/event-stream"})
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "", None])
async def test_other_media_types_than_json_are_rejected(mcp, kind):
    assert (await mcp.raw(body(), {**MODERN_HEADERS, "Content-Type": kind})).status_code == 415


async def test_a_media_type_may_have_parameters_and_any_accept_header_gets_json(mcp):
    for accept in (None, "*/*", "text/html", "application/json"):
        headers = {**MODERN_HEADERS, "Content-Type": "Application/JSON; charset=utf-8", "Accept": accept}
        response = await mcp.raw(body(), headers)
        assert (response.status_code, response.headers["content-type"]) == (200, "application/json")


async def test_a_large_body_is_rejected(mcp):
    # As much above the limit as is still read after the response: beyond that, the connection is reset.
    response = await mcp.raw(b"x" * ((8 << 20) + 1))
    assert response.status_code == 413


@for_each(
    "sent",
    [
        "", "{", "nonsense", '{"jsonrpc":"2.0"', "[" * 10_000 + "]" * 10_000,
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1' + "0" * 40 + "}}", b"\xff\xfe",
    ],
    ids=["empty", "cut", "text", "open", "deep", "large integer", "no UTF-8"],
)  # fmt: skip
async def test_what_is_not_json_is_a_parse_error_without_an_id(mcp, sent):
    response = await mcp.raw(sent, MODERN_HEADERS)
    assert error_of(response) == (400, -32700)
    assert response.json()["id"] is None


@for_each(
    ("sent", "known"),
    [
        ("[]", None),
        ("[" + body() + "]", None),
        ('"text"', None),
        ("null", None),
        (body(jsonrpc="1.0"), 7),
        (body(jsonrpc=2.0), 7),
        (body(method=5), 7),
        (body(method=None, id="seven"), "seven"),
        ('{"jsonrpc":"2.0","id":7,"result":{}}', 7),
    ],
    ids=["list", "batch", "text", "null", "1.0", "number", "method", "no method", "response"],
)
@for_each("headers", [MODERN_HEADERS, {}], ids=["modern", "legacy"])
async def test_what_is_no_request_is_an_invalid_request(mcp, sent, known, headers):
    response = await mcp.raw(sent, headers)
    assert error_of(response) == (400, -32600)
    assert response.json()["id"] == known


@for_each("headers", [MODERN_HEADERS, {}], ids=["modern", "legacy"])
@for_each("method", ["notifications/initialized", "notifications/cancelled", "tools/call"])
async def test_a_notification_is_accepted_and_ignored(mcp, headers, method):
    response = await mcp.raw(json.dumps({"jsonrpc": "2.0", "method": method}), headers)
    assert (response.status_code, response.content) == (202, b"")


@for_each("request_id", [None, True, 1.5, [], {}], ids=["null", "true", "1.5", "list", "object"])
@for_each("headers", [MODERN_HEADERS, {}], ids=["modern", "legacy"])
async def test_an_id_is_a_string_or_an_integer(mcp, request_id, headers):
    response = await mcp.raw(body(id=request_id), headers)
    assert error_of(response) == (400, -32600)
    assert response.json()["id"] is None


@for_each("request_id", ["", "a", 0, -1, 2**53])
async def test_the_response_has_the_id_of_the_request(mcp, request_id):
    for response in (
        await mcp.modern("server/discover", request_id=request_id),
        await mcp.modern("no/such", request_id=request_id),
        await mcp.legacy("ping", request_id=request_id),
    ):
        assert response.json()["id"] == request_id


@pytest.mark.parametrize("name", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
async def test_a_repeated_routing_header_is_a_mismatch(mcp, name):
    values = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "x"}
    headers = [("Content-Type", "application/json"), *values.items(), (name, values[name])]
    sent = body(method="tools/call", params={"name": "x", "_meta": META})
    response = await mcp.http.post("/mcp", content=sent, headers=headers)
    assert error_of(response) == (400, -32020)


@for_each(
    "meta",
    [
        None, [], "x", {}, {VERSION_KEY: MODERN}, {CAPABILITIES_KEY: {}},
        {VERSION_KEY: 1, CAPABILITIES_KEY: {}}, {VERSION_KEY: MODERN, CAPABILITIES_KEY: []},
    ],
    ids=["null", "list", "text", "empty", "version", "capabilities", "number", "list of capabilities"],
)  # fmt: skip
async def test_a_modern_request_has_its_version_and_capabilities_in_the_body(mcp, meta):
    response = await mcp.raw(body(params={"_meta": meta}), MODERN_HEADERS)
    assert error_of(response) == (400, -32602)
    assert response.json()["id"] == 7


async def test_a_modern_request_without_parameters_is_invalid(mcp):
    assert error_of(await mcp.raw('{"jsonrpc":"2.0","id":7,"method":"tools/list"}', MODERN_HEADERS)) == (
        400, -32602,
    )  # fmt: skip
    assert error_of(await mcp.raw(body(params=[1]), MODERN_HEADERS)) == (400, -32602)


@for_each(
    "headers",
    [
        {"MCP-Protocol-Version": "2026-01-01"}, {"Mcp-Method": "tools/call"}, {"Mcp-Method": "Tools/List"},
        {"Mcp-Method": None}, {"MCP-Protocol-Version": None},
    ],
    ids=["version", "method", "case", "no method", "no version"],
)  # fmt: skip
async def test_headers_that_differ_from_the_body_are_a_mismatch(mcp, headers):
    assert error_of(await mcp.modern("tools/list", headers=headers)) == (400, -32020)


async def test_the_name_of_a_header_has_no_case_and_blanks_around_values_do_not_count(mcp, library):
    port = mcp.http.base_url.port
    sent = body(method="tools/call", params={"name": "library_json", "_meta": META}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: {mcp.http.headers['authorization']}"
        "\r\nCONTENT-TYPE:\t application/json \t \r\nmcp-PROTOCOL-version: \t2026-07-28 \t \r\n"
        "MCP-METHOD:   tools/call \t\r\nmcp-NAME:\tlibrary_json   \r\n"
        f"Content-Length: {len(sent)}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(connection, head.encode() + sent)
        received = b""
        while piece := await loop.sock_recv(connection, 65_536):
            received += piece
    assert received.startswith(b"HTTP/1.1 200 ")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["result"]["isError"] is False


def encoded(text):
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("library_json", encoded("library_json")),
        ("no ünïcode", encoded("no ünïcode")),
        (" outer ", encoded(" outer ")),
        ("=?base64?eA==?=", encoded("=?base64?eA==?=")),
    ],
)
async def test_a_name_may_be_encoded(mcp, library, name, header):
    response = await mcp.modern("tools/call", {"name": name}, headers={"Mcp-Name": header})
    if name == "library_json":
        assert response.json()["result"]["isError"] is False
    else:
        assert error_of(response) == (400, -32602)
        assert response.json()["error"]["message"] == f"Unknown tool: {name}"


@for_each(
    "header",
    [
        None, "", "other", "library_JSON", "=?base64?bGlicmFyeV9qc29u!?=", "=?base64?bGlicmFyeV9qc29?=",
        "=?base64?bGlicmFyeV9qc29uCg==?=", "=?base64?/////w==?=", "=?base64?eB==?=",
    ],
)  # fmt: skip
async def test_a_name_that_differs_or_is_not_canonical_is_a_mismatch(mcp, library, header):
    response = await mcp.modern("tools/call", {"name": "library_json"}, headers={"Mcp-Name": header})
    assert error_of(response) == (400, -32020)


@pytest.mark.parametrize("requested", ["1900-01-01", "2099-01-01", "x"])
async def test_a_version_that_is_not_served_gets_the_list_of_those_that_are(mcp, requested):
    response = await mcp.modern(
        "tools/list", meta={VERSION_KEY: requested}, headers={"MCP-Protocol-Version": requested}
    )
    assert error_of(response) == (400, -32022)
    assert response.json()["error"]["data"] == {
        "supported": ["2026-07-28", "2025-11-25", "2025-06-18", "2024-11-05"],
        "requested": requested,
    }


@for_each("method", ["no/such", "initialize", "ping", "logging/setLevel", "tasks/get"])
async def test_an_unknown_method_is_404_for_modern_clients(mcp, method):
    assert error_of(await mcp.modern(method)) == (404, -32601)


@pytest.mark.parametrize("method", ["no/such", "server/discover", "subscriptions/listen", "logging/setLevel"])
async def test_an_unknown_method_is_a_response_for_legacy_clients(mcp, method):
    assert error_of(await mcp.legacy(method)) == (200, -32601)


@for_each(
    "params",
    [{}, {"name": 5}, {"name": None}, {"name": "x", "arguments": []}, {"name": "x", "arguments": "{}"}],
    ids=["none", "number", "null", "list", "text"],
)
async def test_a_call_without_a_name_or_an_object_of_arguments_is_invalid(mcp, params):
    assert error_of(await mcp.modern("tools/call", params)) == (400, -32602)
    assert error_of(await mcp.legacy("tools/call", params)) == (200, -32602)


async def test_an_unknown_tool_is_an_error_with_the_nearest_names(mcp, library):
    params = {"name": "library_fnd", "arguments": {}}
    response = await mcp.modern("tools/call", params)
    assert error_of(response) == (400, -32602)
    assert response.json()["error"]["message"] == "Unknown tool: library_fnd"
    data = response.json()["error"]["data"]
    assert (data["suggestions"], data["hint"]) == (["library_find"], "Did you mean `library_find`?")
    assert error_of(await mcp.legacy("tools/call", params)) == (200, -32602)


async def test_the_scopes_of_a_key_decide_about_each_method(api, library):
    reads, calls = McpClient(await api.client("tools:read")), McpClient(await api.client("tools:call"))
    for client in (reads, calls):
        assert (await client.modern("server/discover")).status_code == 200
    call = {"name": "library_json", "arguments": {}}
    denied = await reads.modern("tools/call", call)
    assert (denied.status_code, denied.json()["missing_scopes"]) == (403, ["tools:call"])
    denied = await calls.modern("tools/list")
    assert (denied.status_code, denied.json()["missing_scopes"]) == (403, ["tools:read"])
    assert (await calls.modern("tools/call", call)).status_code == 200
    neither = McpClient(await api.client("calls:read"))
    assert (await neither.modern("server/discover")).status_code == 403


async def test_an_unknown_toolset_is_not_found(mcp):
    mcp.path = "/toolsets/none/mcp"
    assert (await mcp.modern("server/discover")).status_code == 404


async def test_the_checks_are_the_same_where_a_middleware_disables_the_fast_routes(served):
    settings = served.services.settings
    other = Settings(
        **{**settings.model_dump(exclude={"base_url"}), "cors_origins": ("https://app.example",), "port": 0}
    )
    async with run_application(other) as application:
        client = McpClient(await application.client("tools:read"))
        assert (await client.modern("tools/list")).status_code == 200
        allowed = await client.modern("tools/list", headers={"Origin": "https://app.example"})
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        denied = await client.modern("tools/list", headers={"Origin": "https://evil.example"})
        assert denied.status_code == 403
        assert (await client.http.get("/mcp")).status_code == 405


@for_each("path", ["/mcp", "/mcp/all", "/mcp/search", "/toolsets/desk/mcp"])
async def test_an_address_with_a_slash_at_its_end_is_the_same(mcp, api, library, path):
    admin = await api.client("admin")
    await admin.put("/toolsets/desk", json={"definition": {"providers": ["library"]}})
    found = []
    for end in ("", "/"):
        mcp.path = path + end
        listed = await mcp.modern("tools/list")
        assert listed.status_code == 200, listed.text
        found.append([tool["name"] for tool in listed.json()["result"]["tools"]])
        assert (await mcp.http.get(mcp.path)).status_code == 405
        assert (await mcp.http.put(mcp.path)).status_code == 405
    assert found[0] == found[1] != []
    assert (await mcp.http.post(f"{path}//", json={})).status_code == 404


@for_each("origins", [(), ("https://app.example",)])
async def test_an_admitted_page_of_loopback_may_ask_send_and_read(served, origins):
    settings = served.services.settings.model_dump(exclude={"base_url"})
    async with run_application(Settings(**{**settings, "cors_origins": origins, "port": 0})) as application:
        http = await application.client("tools:read")
        client = McpClient(http)
        page = {"Origin": "http://localhost:6274"}
        asked = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": f"{MCP_HEADERS},mcp-param-a",
        }
        for client.path in ("/mcp", "/mcp/", "/mcp/all", "/toolsets/none/mcp"):
            http.headers.pop("Authorization", None)
            preflight = await http.options(client.path, headers={**page, **asked})
            assert preflight.status_code == 204, (client.path, preflight.text)
            assert preflight.headers["access-control-allow-origin"] == page["Origin"]
            allowed = preflight.headers["access-control-allow-headers"].lower().replace(" ", "").split(",")
            assert {*MCP_HEADERS.split(","), "mcp-param-a"} <= set(allowed)
            denied = await http.options(client.path, headers={"Origin": "https://evil.example", **asked})
            assert denied.status_code in (400, 403)
            assert "access-control-allow-origin" not in denied.headers
            rejected = await client.modern("tools/list", headers=page)
            assert rejected.status_code == 401
            # The client reads the challenge.
            assert rejected.headers["access-control-allow-origin"] == page["Origin"]
            assert "www-authenticate" in rejected.headers["access-control-expose-headers"].lower()
        http = await application.client("tools:read")
        listed = await McpClient(http).modern("tools/list", headers=page)
        assert listed.status_code == 200
        assert listed.headers["access-control-allow-origin"] == page["Origin"]
        # No preflight request of a page.
        assert (await http.options("/mcp")).status_code == 405


MCP_HEADERS = (
    "authorization,content-type,mcp-protocol-version,mcp-method,mcp-name,mcp-session-id,last-event-id"
)


async def test_a_preflight_request_allows_the_headers_that_mcp_clients_send(served):
    """Browsers ask before they send such a request, and let a page read only the headers that are exposed."""
    settings = served.services.settings.model_dump(exclude={"base_url"})
    other = Settings(**{**settings, "cors_origins": ("https://app.example",), "port": 0})

    async def ask(http, names, origin="https://app.example"):
        headers = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": names}
        response = await http.options("/mcp", headers={"Origin": origin, **headers})
        allowed = response.headers["access-control-allow-headers"].lower().replace(" ", "")
        return response, allowed.split(",")

    async with run_application(other) as application:
        http = await application.client("tools:read")
        response, allowed = await ask(http, f"{MCP_HEADERS},mcp-param-tenant, Mcp-Param-Region")
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        assert {*MCP_HEADERS.split(","), "mcp-param-tenant", "mcp-param-region"} <= set(allowed)
        # What one request names is allowed for no other.
        response, allowed = await ask(http, MCP_HEADERS)
        assert response.status_code == 200
        assert not any(name.startswith("mcp-param-") for name in allowed)
        for names in ("x-other", "mcp-param-", "mcp-param-a b", "mcp-param-tenant, x-other"):
            response, allowed = await ask(http, names)
            assert response.status_code == 400
            assert "x-other" not in allowed
        denied, _ = await ask(http, "mcp-param-tenant", origin="https://evil.example")
        assert denied.status_code == 400
        assert "access-control-allow-origin" not in denied.headers
        listed = await McpClient(http).modern("tools/list", headers={"Origin": "https://app.example"})
        exposed = listed.headers["access-control-expose-headers"].lower().split(", ")
        assert {"mcp-session-id", "www-authenticate", "x-call-id", "retry-after"} <= set(exposed)

"""What a result of `tools/call` is for each kind of response, in both eras."""

import base64
import hashlib
import json
from urllib.parse import unquote

import pytest

from app.core.rate_limit import RateLimit
from tests.harness.cases import for_each
from tests.harness.mcp_requests import McpClient


@pytest.fixture
async def call(api, mcp, upstream):
    """Calls a tool whose upstream gives a response; returns the results of both eras."""
    row = await api.provider("site")

    async def make(path, *, name="tool", override=None, arguments=None, **fields):
        await api.tool(row, name, {"url": f"{upstream.url}{path}"}, override=override, **fields)
        params = {"name": f"site_{name}", "arguments": arguments or {}}
        modern = (await mcp.modern("tools/call", params)).json()["result"]
        legacy = (await mcp.legacy("tools/call", params)).json()["result"]
        assert modern.pop("resultType") == "complete"
        assert modern["_meta"].pop("io.modelcontextprotocol/serverInfo")["name"] == "utcp-gateway"
        for result in (modern, legacy):
            assert set(result.pop("_meta")) == {"utcp-gateway/callId"}
            assert isinstance(result["isError"], bool)
            assert None not in result.values()
        return modern, legacy

    return make


def pieces(text):
    from urllib.parse import quote

    return f"/pieces?body={quote(text)}"


async def test_a_json_object_is_text_as_it_came_and_structured_content(call):
    for result in await call("/respond/200/json"):
        assert result == {
            "content": [{"type": "text", "text": '{"a": 1}'}],
            "isError": False,
            "structuredContent": {"a": 1},
        }


@pytest.mark.parametrize("text", ["[1, 2]", '"text"', "5", "true"])
async def test_other_json_is_structured_content_for_modern_clients_only(call, text):
    modern, legacy = await call(pieces(text))
    assert modern["structuredContent"] == json.loads(text)
    assert "structuredContent" not in legacy
    assert modern["content"] == legacy["content"] == [{"type": "text", "text": text}]


async def test_null_is_text_only(call):
    for result in await call(pieces("null")):
        assert result == {"content": [{"type": "text", "text": "null"}], "isError": False}


async def test_large_integers_and_decimals_are_unchanged(api, call, mcp):
    text = '{"a":18446744073709551615,"b":-9223372036854775808,"c":0.1234567890123456789}'
    for result in await call(pieces(text)):
        assert result["content"][0]["text"] == text
    raw = (await mcp.modern("tools/call", {"name": "site_tool"})).text
    assert f'"structuredContent":{text}' in raw


async def test_json_beyond_the_limit_of_structured_content_is_text_only(call):
    for result in await call("/respond/200/large", name="large"):
        assert "structuredContent" not in result
        assert result["isError"] is False


@pytest.mark.parametrize("kind", ["text", "latin"])
async def test_text_is_decoded(call, kind):
    for result in await call(f"/respond/200/{kind}"):
        assert result == {"content": [{"type": "text", "text": "grüß"}], "isError": False}


@pytest.mark.parametrize("kind", ["empty", "emptyjson"])
async def test_an_empty_response_says_so(call, kind):
    for result in await call(f"/respond/204/{kind}"):
        assert result["content"] == [{"type": "text", "text": "(no content, HTTP 204)"}]
        assert result["isError"] is False


async def test_what_is_no_json_is_text(call):
    for result in await call("/respond/200/nojson"):
        assert result == {"content": [{"type": "text", "text": "<oops>"}], "isError": False}


async def test_an_image_is_an_image_with_its_type(call):
    for result in await call("/respond/200/binary"):
        # Many hosts show the first block only.
        image, text = result["content"]
        assert "image/png" in text["text"]
        assert image["type"] == "image"
        assert image["mimeType"] == "image/png"
        assert image["data"] == "iVBORwD/"
        assert "structuredContent" not in result


@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_an_error_of_the_upstream_is_a_result(call, status):
    for result in await call(f"/respond/{status}/problem"):
        assert result["isError"] is True
        assert str(status) in result["content"][0]["text"]


async def test_invalid_arguments_are_a_result_with_pointers(call, upstream):
    inputs = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    for result in await call("/echo", inputs=inputs, arguments={"n": "many"}):
        assert result["isError"] is True
        assert "/n" in result["content"][0]["text"]
    assert upstream.requests == []


async def test_a_rate_limit_is_a_result_that_says_when_to_try_again(api, upstream):
    row = await api.provider("limited")
    await api.tool(row, "one", {"url": f"{upstream.url}/echo"})
    for era in ("modern", "legacy"):
        client = McpClient(await api.client("tools:call", rate=RateLimit.parse("1/60")))
        send = getattr(client, era)
        responses = [await send("tools/call", {"name": "limited_one"}) for _ in range(2)]
        result = responses[1].json()["result"]
        assert responses[1].status_code == 200
        assert result["isError"] is True
        assert 0 < result["_meta"]["utcp-gateway/retryAfterSeconds"] <= 60


async def test_an_upstream_that_does_not_respond_is_a_result(api, mcp):
    row = await api.provider("gone")
    await api.tool(row, "one", {"url": "http://127.0.0.1:9/x"})
    result = (await mcp.modern("tools/call", {"name": "gone_one"})).json()["result"]
    assert result["isError"] is True
    assert result["content"][0]["text"]


async def test_secrets_in_a_response_are_masked(api, mcp, upstream):
    row = await api.provider("masked")
    await api.credential(row, "key", "api_key", {"value": "the-secret-value"}, origins=[upstream.url])
    await api.tool(
        row,
        "one",
        {
            "url": f"{upstream.url}/echo",
            "auth": {"auth_type": "api_key", "var_name": "k", "location": "query"},
        },
    )
    text = (await mcp.modern("tools/call", {"name": "masked_one"})).text
    assert "the-secret-value" not in text


OUTPUTS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


async def test_a_published_output_schema_is_listed_and_its_results_are_structured(call, mcp):
    override = {"publish_output_schema": True}
    for result in await call("/respond/200/json", outputs=OUTPUTS, override=override):
        assert result["structuredContent"] == {"a": 1}
        assert result["isError"] is False
    _, tool = (await mcp.modern("tools/list")).json()["result"]["tools"]
    assert tool["outputSchema"]["required"] == ["a"]


async def test_a_result_that_deviates_from_a_published_schema_is_an_error_with_the_body(call):
    override = {"publish_output_schema": True}
    outputs = {"type": "object", "properties": {"a": {"type": "string"}}}
    for result in await call("/respond/200/json", outputs=outputs, override=override):
        assert result["isError"] is True
        assert "/a" in result["content"][0]["text"]
        assert result["content"][1]["text"] == '{"a": 1}'
        assert "structuredContent" not in result


async def test_a_published_schema_of_a_list_is_wrapped_for_both_eras(call, mcp):
    override = {"publish_output_schema": True}
    outputs = {"type": "array", "items": {"type": "integer"}}
    for result in await call(pieces("[1, 2]"), outputs=outputs, override=override):
        assert result["structuredContent"] == {"result": [1, 2]}
    _, tool = (await mcp.modern("tools/list")).json()["result"]["tools"]
    assert tool["outputSchema"]["type"] == "object"


async def test_a_schema_is_not_published_by_default(call, mcp):
    await call("/respond/200/json", outputs=OUTPUTS)
    _, tool = (await mcp.modern("tools/list")).json()["result"]["tools"]
    assert "outputSchema" not in tool


async def test_a_call_that_waits_for_approval_is_a_result_with_its_url(api, mcp, upstream):
    row = await api.provider("site")
    await api.tool(row, "one", {"url": f"{upstream.url}/echo"}, override={"requires_approval": True})
    for send in (mcp.modern, mcp.legacy):
        result = (await send("tools/call", {"name": "site_one"})).json()["result"]
        assert result["isError"] is True
        assert "/approvals/" in result["content"][0]["text"]
    assert upstream.requests == []
    _, tool = (await mcp.modern("tools/list")).json()["result"]["tools"]
    assert tool["_meta"]["utcp-gateway/requiresApproval"] is True


async def test_a_result_beyond_the_limit_is_cut_and_says_how_to_read_the_rest(api, mcp, upstream):
    row = await api.provider("site")
    await api.tool(row, "one", {"url": f"{upstream.url}/drip?count=1&size=200000"})
    result = (await mcp.modern("tools/call", {"name": "site_one"})).json()["result"]
    assert len(result["content"][0]["text"]) < 110_000
    rest = result["_meta"]["utcp-gateway/continuation"]
    more = await mcp.modern("tools/call", {"name": "read_more", "arguments": {"continuation": rest}})
    assert more.json()["result"]["isError"] is False


async def test_a_model_chooses_the_parts_and_the_form_of_a_result(api, mcp, upstream):
    row = await api.provider("site")
    body = '{"total": 2, "items": [{"id": 1, "text": "x"}, {"id": 2, "text": "y"}]}'
    # Parts of a result need not be valid for the schema of the whole.
    outputs = {"type": "object", "required": ["items", "total"]}
    override = {"publish_output_schema": True}
    await api.tool(row, "list", {"url": f"{upstream.url}{pieces(body)}"}, outputs=outputs, override=override)

    async def call(**wanted):
        arguments = {"name": "site_list", "arguments": {}, **wanted}
        params = {"name": "call_read_tool", "arguments": arguments}
        return [(await send("tools/call", params)).json()["result"] for send in (mcp.modern, mcp.legacy)]

    for projected in await call(fields=["$.items[*].id"]):
        assert projected["structuredContent"] == {"items": [{"id": 1}, {"id": 2}]}
        assert json.loads(projected["content"][0]["text"]) == projected["structuredContent"]
    for table in await call(fields=["$.items[*].id"], result_format="csv"):
        assert table["content"][0]["text"] == "id\n1\n2\n"
        assert "structuredContent" not in table
    for wrong in await call(fields=["total"]):
        assert wrong["isError"] is True
        assert "/fields" in wrong["content"][0]["text"]


@for_each(
    ("media", "body"),
    [
        ("application/pdf", "%25PDF-1.7%20x"),
        ("application/zip", "PK%03%04%00"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "PK%03%04%00"),
    ],
)
async def test_a_file_is_described_and_embedded_up_to_a_limit(api, mcp, upstream, media, body):
    row = await api.provider(f"files-{hashlib.sha256(media.encode()).hexdigest()[:8]}")
    await api.tool(row, "small", {"url": f"{upstream.url}/pieces?type={media}&body={body}"})
    large = f"{upstream.url}/pieces?type={media}&body={body}&times=300000&size=2000000"
    await api.tool(row, "large", {"url": large})
    for send in (mcp.modern, mcp.legacy):
        result = (await send("tools/call", {"name": f"{row.name}_small"})).json()["result"]
        text, file = result["content"]
        assert media in text["text"]
        assert "not included" not in text["text"]
        assert file["type"] == "resource"
        assert file["resource"]["mimeType"] == media
        assert file["resource"]["uri"].startswith("http")
        assert base64.b64decode(file["resource"]["blob"]) == unquote(body).encode()
        result = (await send("tools/call", {"name": f"{row.name}_large"})).json()["result"]
        (text,) = result["content"]
        assert "not included: results over MCP have files of at most 1,048,576 bytes" in text["text"]


async def test_a_published_schema_and_json_that_is_nested_too_deeply(call):
    text = '{"a":' + "[" * 400 + "]" * 400 + "}"
    schema = {"type": "object", "properties": {"a": {}}}
    for result in await call(pieces(text), outputs=schema, override={"publish_output_schema": True}):
        assert result["isError"] is True
        assert result["content"][1]["text"] == text


async def test_a_declared_redirect_is_the_result_with_its_location(api, mcp, upstream):
    row = await api.provider("site")
    template = {"url": f"{upstream.url}/redirect", "response": {"redirects": ["3XX"]}}
    await api.tool(row, "archive", template)
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    published = {"publish_output_schema": True}
    await api.tool(row, "repository", template, outputs=schema, override=published)
    params = {"arguments": {"status": 302, "to": "/a.zip"}}
    for method in (mcp.modern, mcp.legacy):
        result = (await method("tools/call", {"name": "site_archive", **params})).json()["result"]
        assert result["isError"] is False
        assert f"redirect (HTTP 302) to {upstream.url}/a.zip" in result["content"][0]["text"]
        # A client rejects a result that is not valid for the published schema, unless it is an error.
        result = (await method("tools/call", {"name": "site_repository", **params})).json()["result"]
        assert result["isError"] is True
        assert f"redirect (HTTP 302) to {upstream.url}/a.zip" in result["content"][-1]["text"]
    tools = (await mcp.modern("tools/list", {})).json()["result"]["tools"]
    assert [
        tool.get("outputSchema", {}).get("required") for tool in tools if tool["name"] == "site_repository"
    ] == [["id"]]

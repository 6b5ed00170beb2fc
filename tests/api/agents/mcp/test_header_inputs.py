"""Inputs that an operator has clients repeat in headers (`x-mcp-header`)."""

import base64

import pytest

from tests.harness.cases import for_each
from tests.harness.mcp_requests import error_of

PATH = "/tools/library.find"


async def put(api, header_inputs, path=PATH):
    return await (await api.client("admin")).patch(
        path, json={"annotations": {"header_inputs": header_inputs}}
    )


async def listed_inputs(mcp, name="library_find"):
    tools = (await mcp.modern("tools/list")).json()["result"]["tools"]
    return next(tool["inputSchema"] for tool in tools if tool["name"] == name)


async def test_an_input_is_marked_in_the_list_and_its_header_is_compared(api, mcp, library):
    changed = await put(api, {"q": "Query", "limit": "Limit"})
    assert changed.status_code == 200, changed.text
    assert changed.json()["annotations"]["header_inputs"] == {"q": "Query", "limit": "Limit"}
    properties = (await listed_inputs(mcp))["properties"]
    assert (properties["q"]["x-mcp-header"], properties["limit"]["x-mcp-header"]) == ("Query", "Limit")
    params = {"name": "library_find", "arguments": {"q": "sea", "limit": 3}}
    good = {"Mcp-Param-Query": "sea", "mcp-param-LIMIT": "3.0"}
    result = (await mcp.modern("tools/call", params, headers=good)).json()["result"]
    assert result["structuredContent"]["path"] == "/echo?q=sea&limit=3"
    for wrong in ({}, {"Mcp-Param-Query": "sea"}, good | {"Mcp-Param-Query": "land"}):
        response = await mcp.modern("tools/call", params, headers=wrong)
        assert error_of(response) == (400, -32020)
    assert (await mcp.legacy("tools/call", params)).json()["result"]["isError"] is False
    assert (await put(api, None)).status_code == 200
    assert "x-mcp-header" not in str(await listed_inputs(mcp))
    assert (await mcp.modern("tools/call", params)).json()["result"]["isError"] is False


def encoded(text):
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("sea", encoded("sea")),
        ("Zürich", encoded("Zürich")),
        (" sea", encoded(" sea")),
    ],
)
async def test_a_header_input_may_be_encoded(api, mcp, library, text, header):
    await put(api, {"q": "Query"})
    params = {"name": "library_find", "arguments": {"q": text}}
    response = await mcp.modern("tools/call", params, headers={"Mcp-Param-Query": header})
    assert response.json()["result"]["isError"] is False


@for_each(
    "header",
    ["=?base64?c2Vh!?=", "=?base64?c2V?=", "=?base64?c2Vh", "=?base64?/////w==?=", "Sea", "sea, sea", ""],
)
async def test_a_header_input_that_differs_or_is_not_canonical_is_a_mismatch(api, mcp, library, header):
    await put(api, {"q": "Query"})
    params = {"name": "library_find", "arguments": {"q": "sea"}}
    response = await mcp.modern("tools/call", params, headers={"Mcp-Param-Query": header})
    assert error_of(response) == (400, -32020)


async def test_a_header_of_an_absent_argument_is_a_mismatch(api, mcp, library):
    await put(api, {"limit": "Limit"})
    for arguments in ({"q": "sea"}, {"q": "sea", "limit": None}):
        params = {"name": "library_find", "arguments": arguments}
        response = await mcp.modern("tools/call", params, headers={"Mcp-Param-Limit": "3"})
        assert error_of(response) == (400, -32020)
    # A header that no input has is no concern of the gateway's.
    params = {"name": "library_find", "arguments": {"q": "sea"}}
    response = await mcp.modern("tools/call", params, headers={"Mcp-Param-Other": "3"})
    assert response.json()["result"]["isError"] is False


async def test_other_annotations_and_the_hints_of_the_method_stay(api, mcp, library):
    before = (await mcp.modern("tools/list")).json()["result"]["tools"][0]["annotations"]
    await put(api, {"q": "Query"})
    assert (await mcp.modern("tools/list")).json()["result"]["tools"][0]["annotations"] == before
    admin = await api.client("admin")
    both = {"annotations": {"header_inputs": {"q": "Query"}, "read_only": False, "destructive": True}}
    shown = (await admin.patch(PATH, json=both)).json()["annotations"]
    assert (shown["read_only"], shown["destructive"], shown["header_inputs"]) == (False, True, {"q": "Query"})


@for_each(
    ("given", "pointer"),
    [
        ({"none": "None"}, "/none"),
        ({"q": "two words"}, "/q"),
        ({"q": ""}, "/q"),
        ({"q": "Täg"}, "/q"),
        ({"q": 5}, "/q"),
        ({"q": "Same", "limit": "SAME"}, ""),
        ({"q": "One", "/q": "Two"}, ""),
        ({"/q/inner": "Inner"}, "/~1q~1inner"),
        ({"": "Empty"}, ""),
        ([], ""),
        ({f"q{number}": f"T{number}" for number in range(21)}, ""),
    ],
    ids=[
        "no input", "two words", "empty", "not ASCII", "number", "same token", "same input", "inside a text",
        "no name", "list", "too many",
    ],
)  # fmt: skip
async def test_bad_values_are_rejected_with_a_pointer(api, library, given, pointer):
    response = await put(api, given)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    pointers = [error["pointer"] for error in response.json()["errors"]]
    assert any(one.startswith(f"/annotations/header_inputs{pointer}") for one in pointers)


@pytest.mark.parametrize(
    "schema",
    [{"type": "number"}, {"type": ["string", "null"]}, {"type": "array", "items": {}}, {"$ref": "#/$defs/a"}],
    ids=["number", "nullable", "array", "reference"],
)
async def test_an_input_of_another_type_is_rejected(api, mcp, library, schema):
    inputs = {"type": "object", "properties": {"a": schema}, "$defs": {"a": {"type": "string"}}}
    await api.tool(library, "typed", {}, inputs=inputs)
    response = await put(api, {"a": "A"}, "/tools/library.typed")
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["pointer"] == "/annotations/header_inputs/a"
    assert "single type" in error["detail"]
    assert "x-mcp-header" not in str(await listed_inputs(mcp, "library_typed"))


async def test_a_batch_applies_the_same_checks_to_each_tool(api, mcp, library):
    admin = await api.client("admin")
    patch = {"annotations": {"header_inputs": {"q": "Query"}}}
    operations = [{"tool": name, "patch": patch} for name in ("library.find", "library.json")]
    items = (await admin.post("/tools:batch", json={"operations": operations})).json()["items"]
    assert [(item["outcome"], item["status"]) for item in items] == [("changed", 200), ("failed", 422)]
    (error,) = items[1]["problem"]["errors"]
    assert error["pointer"] == "/patch/annotations/header_inputs/q"
    assert (await listed_inputs(mcp))["properties"]["q"]["x-mcp-header"] == "Query"


async def test_an_input_that_a_toolset_sets_has_no_header_there(api, mcp, library):
    await put(api, {"q": "Query", "limit": "Limit"})
    admin = await api.client("admin")
    definition = {"tools": ["library.find"], "changes": {"library.find": {"presets": {"q": "sea"}}}}
    made = await admin.put("/toolsets/preset", json={"definition": definition})
    assert made.status_code in (200, 201), made.text
    mcp.path = "/toolsets/preset/mcp"
    properties = (await listed_inputs(mcp))["properties"]
    assert set(properties) == {"limit"}
    assert properties["limit"]["x-mcp-header"] == "Limit"
    params = {"name": "library_find", "arguments": {"limit": 3}}
    called = await mcp.modern("tools/call", params, headers={"Mcp-Param-Limit": "3"})
    assert called.json()["result"]["structuredContent"]["path"] == "/echo?limit=3&q=sea"


async def test_the_export_for_mcp_has_the_marks_and_other_dialects_have_none(api, library):
    await put(api, {"q": "Query"})
    client = await api.client()
    for target, number in (("mcp", 1), ("openai-chat", 0), ("anthropic", 0)):
        exported = (await client.get("/tools/export", params={"format": target})).json()
        assert str(exported["tools"]).count("x-mcp-header") == number


async def test_a_meta_tool_calls_the_tool_without_the_header(api, mcp, library):
    await put(api, {"q": "Query"})
    inner = {"name": "library_find", "arguments": {"q": "sea"}}
    called = await mcp.modern("tools/call", {"name": "call_tool", "arguments": inner})
    assert called.json()["result"]["structuredContent"]["path"] == "/echo?q=sea"

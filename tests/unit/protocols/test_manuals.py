"""Documents told apart, and manuals of both versions read tool by tool."""

import pytest

from app.core.errors import InvalidDocument
from app.protocols.manuals import detect_kind, read_manual
from tests.harness.cases import for_each

V0 = {"provider_type": "http", "url": "https://example.com/api/weather", "http_method": "GET"}
V1 = {"call_template_type": "http", "url": "https://example.com/api/weather", "http_method": "GET"}
README = {
    "version": "1.0",
    "tools": [
        {
            "name": "get_weather",
            "description": "Get current weather for a location",
            "inputs": {"type": "object", "properties": {"location": {"type": "string"}}},
            "outputs": {"type": "object", "properties": {"temperature": {"type": "number"}}},
            "tool_provider": V0,
        }
    ],
}


@for_each(
    ("raw", "kind"),
    [
        (README, "manual_v0"),
        ({"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": []}, "manual_v1"),
        ({"utcp_version": "1.0.1", "version": "1", "tools": []}, "manual_v1"),
        ({"tools": [{"tool_call_template": V1}]}, "manual_v1"),
        ({"tools": [{"tool_provider": V0}]}, "manual_v0"),
        ({"tools": [{"provider": V0}]}, "manual_v0"),
        ({"tools": [{"type": "function"}]}, "unknown"),
        ({"version": "1", "tools": {}}, "unknown"),
        ({"openapi": "3.1.0", "info": {}, "paths": {}}, "openapi"),
        ({"swagger": 2.0, "tools": []}, "openapi"),
        ({"paths": {"/x": {}}}, "openapi"),
        ({"name": "x", **V0}, "provider_v0"),
        (V1, "call_template_v1"),
        ({**V0, **V1}, "call_template_v1"),
        ([{"name": "x", **V0}, V1], "providers_list"),
        ([], "providers_list"),
        ([1], "providers_list"),
        ([{"name": "x"}], "providers_list"),
        ({"manual_call_templates": [V1], "variables": {}}, "manual_call_templates"),
        ({"name": "x", "options": {}, "source": {"type": "openapi", "url": "https://x"}}, "canonical"),
        ({"source": {}}, "canonical"),
        ({"name": "x", "source": {}, "unknown": 1}, "canonical"),
        ({"source": {}, **V1}, "call_template_v1"),
        ({}, "unknown"),
        ("text", "unknown"),
        (None, "unknown"),
        ({"call_template_type": 5}, "unknown"),
    ],
)
def test_documents_are_distinguished_by_their_keys(raw, kind):
    assert detect_kind(raw) == kind


def test_the_manual_of_the_readme():
    manual = read_manual(README)
    assert (manual.version, manual.declared, manual.rejected_tools, manual.warnings) == (
        "manual_v0",
        "1.0",
        (),
        (),
    )
    (tool,) = manual.tools
    assert (tool.name, tool.description, tool.tags, tool.pointer) == (
        "get_weather", "Get current weather for a location", (), "/tools/0",
    )  # fmt: skip
    assert tool.inputs == README["tools"][0]["inputs"]
    assert tool.template.model is not None
    assert tool.template.model.url == "https://example.com/api/weather"


@pytest.mark.parametrize("key", ["tool_call_template", "tool_provider", "provider", "tool_transport"])
def test_a_template_under_any_of_its_names(key):
    manual = read_manual(
        {"utcp_version": "1", "tools": [{"name": "a", "parameters": {"type": "object"}, key: V0}]}
    )
    assert manual.tools[0].template.protocol == "http"
    assert manual.tools[0].inputs == {"type": "object"}


def test_one_bad_tool_never_loses_the_others():
    deep: object = {}
    for _ in range(500):
        deep = {"items": deep}
    good = {"name": "good", "tool_call_template": V1}
    bad = [
        "text",
        None,
        {"tool_call_template": V1},
        {"name": 5, "tool_call_template": V1},
        {"name": "\u200b ", "tool_call_template": V1},
        {"name": "x" * 513, "tool_call_template": V1},
        {"name": "no template"},
        {"name": "pigeon", "tool_call_template": {"call_template_type": "pigeon"}},
        {"name": "list", "inputs": [], "tool_call_template": V1},
        {"name": "deep", "inputs": deep, "tool_call_template": V1},
        {"name": "nul", "inputs": {"properties": {"a": {"enum": ["\x00"]}}}, "tool_call_template": V1},
        {"name": "n\x00l", "tool_call_template": V1},
        {"name": "nul", "description": "\x00", "tool_call_template": V1},
        {"name": "nul", "tags": ["\x00"], "tool_call_template": V1},
        {"name": "url", "tool_call_template": {**V1, "url": 5}},
        {"name": "auth", "tool_call_template": {**V1, "auth": {"auth_type": "oauth2_user"}}},
    ]
    manual = read_manual({"utcp_version": "1.0.1", "tools": [good, *bad, good]})
    assert [tool.name for tool in manual.tools] == ["good", "good"]
    assert [fault.pointer for fault in manual.rejected_tools] == [
        f"/tools/{n}" for n in range(1, len(bad) + 1)
    ]
    assert all(
        fault.errors and fault.errors[0].pointer.startswith(fault.pointer) for fault in manual.rejected_tools
    )
    assert manual.rejected_tools[7].name == "pigeon"
    assert [warning.pointer for warning in manual.warnings] == [f"/tools/{len(bad) + 1}/name"]


def test_tools_of_every_protocol_are_read():
    template = {"call_template_type": "mcp", "config": {"mcpServers": {"s": {"command": "c"}}}}
    (tool,) = read_manual(
        {"utcp_version": "1", "tools": [{"name": "a", "tool_call_template": template}]}
    ).tools
    assert tool.template.protocol == "mcp"


def test_nulls_and_odd_values_are_taken_lightly():
    entry = {
        "name": " a.b/c\u200b ", "description": None, "inputs": None, "outputs": None, "tags": None,
        "average_response_size": None, "tool_call_template": V1, "unknown": 1,
    }  # fmt: skip
    (tool,) = read_manual({"utcp_version": None, "tools": [entry]}).tools
    assert (tool.name, tool.description, tool.tags, tool.average_response_size) == ("a.b/c", "", (), None)
    assert (tool.inputs, tool.outputs) == ({"type": "object"}, {})


def test_tags_are_clean_and_few():
    tags = [" a ", "a", 5, "", "b\u202e", "x" * 200, *map(str, range(100))]
    (tool,) = read_manual({"tools": [{"name": "a", "tags": tags, "provider": V0}]}).tools
    assert tool.tags[:2] == ("a", "b")
    assert len(tool.tags) == 64
    assert len(tool.tags[2]) == 100


def test_the_auth_that_the_documentation_puts_beside_the_template():
    auth = {"auth_type": "basic", "username": "u", "password": "p"}
    (tool,) = read_manual({"version": "1", "tools": [{"name": "a", "auth": auth, "tool_provider": V0}]}).tools
    assert tool.template.model is not None
    assert tool.template.model.auth is not None
    assert len(tool.notes) == 1


def test_lost_references_are_noted():
    entry = {"name": "a", "inputs": {"properties": {"x": {"$ref": "#/components/schemas/X"}}}, "provider": V0}
    (tool,) = read_manual({"version": "1", "tools": [entry]}).tools
    assert tool.inputs == {"type": "object", "properties": {"x": {}}}
    assert "#/components/schemas/X" in tool.notes[0]


def test_what_says_nothing_at_the_top_is_warned_of():
    manual = read_manual({"version": "1", "tools": [], "auth": {"a": 1}, "variables": {"a": 1}, "info": {}})
    assert [warning.pointer for warning in manual.warnings] == ["/auth", "/variables"]


@for_each("raw", [None, [], {}, {"tools": {}}, {"tools": [{}] * 3}])
def test_no_manual_at_all(raw):
    with pytest.raises(InvalidDocument):
        read_manual(raw, max_tools=2)


def test_keywords_of_the_manual_hold_for_its_tools_after_their_own():
    own = {"name": "a", "tool_call_template": V1, "x-keywords": "parrot, Voice"}
    raw = {"utcp_version": "1.0.1", "tools": [own, {"name": "b", "tool_call_template": V1}]}
    manual = read_manual({**raw, "x-keywords": ["voice", "sound"], "x-language": "fr_ca"})
    assert [tool.keywords for tool in manual.tools] == [("parrot", "Voice", "sound"), ("voice", "sound")]
    assert (manual.language, manual.warnings) == ("fr-CA", ())


def test_keywords_and_languages_that_cannot_be_read_are_warnings():
    tools = [{"name": "a", "tool_call_template": V1, "x-keywords": ["x", {}]}]
    raw = {"utcp_version": "1.0.1", "tools": tools, "x-keywords": 7, "x-lang": []}
    manual = read_manual(raw)
    assert [tool.keywords for tool in manual.tools] == [("x",)]
    assert manual.language is None
    assert [one.pointer for one in manual.warnings] == ["/x-lang", "/x-keywords", "/tools/0/x-keywords/1"]


def test_a_tool_has_at_most_fifty_keywords_and_the_manual_a_thousand_warnings():
    tools = [
        {"name": f"t{number}", "tool_call_template": V1, "x-keywords": ["own", *[7] * 49]}
        for number in range(30)
    ]
    common = [f"k{number}" for number in range(50)]
    manual = read_manual({"utcp_version": "1.0.1", "tools": tools, "x-keywords": common})
    assert all(tool.keywords == ("own", *common[:49]) for tool in manual.tools)
    assert len(manual.warnings) == 1_000

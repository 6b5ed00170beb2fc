"""Call templates of tools that name what is called by the tool's name, as UTCP's own clients do, or not at all."""

from typing import Any

import pytest

from app.core.errors import InvalidInput
from app.protocols.call_templates import for_tool, read_template
from app.protocols.manuals import read_manual
from tests.harness.cases import for_each

SERVERS = {"search": {"url": "https://a.example/mcp"}, "search.old": {"url": "https://b.example/mcp"},
           "files": {"command": "/usr/bin/files"}}  # fmt: skip


def mcp(*names: str, **fields: Any) -> dict[str, Any]:
    servers = {name: SERVERS[name] for name in names}
    return {"call_template_type": "mcp", "config": {"mcpServers": servers}, **fields}


@for_each(
    ("template", "name", "server", "tool"),
    [
        (mcp("search", "files"), "search.find", "search", "find"),
        (mcp("search", "files"), "files.read.all", "files", "read.all"),
        (mcp("search", "files"), "docs.search.find", "search", "find"),
        (mcp("search", "files", name="my.docs"), "my.docs.files.read", "files", "read"),
        (mcp("search", "search.old"), "search.old.find", "search.old", "find"),
        (mcp("search", "search.old"), "search_old_find", "search.old", "find"),
        (mcp("search", "files"), "files_read", "files", "read"),
        (mcp("search"), "find", "search", "find"),
        (mcp("search"), "search.find", "search", "find"),
        (mcp("search"), "docs.search.find", "search", "find"),
        (mcp("search"), "search_find", "search", "search_find"),
        (mcp("search"), "search.", "search", "search."),
        (mcp("search", "files", tool_name="find"), "search.other", "search", "find"),
        (mcp("search", tool_name="find"), "anything", "search", "find"),
    ],
)
def test_a_tool_of_mcp_names_its_server_and_tool_by_its_name(
    template: dict[str, Any], name: str, server: str, tool: str
) -> None:
    stored = for_tool(read_template(template), name).model.stored()
    assert list(stored["config"]["mcpServers"]) == [server]
    assert stored["tool_name"] == tool


def test_a_resource_of_mcp_gets_no_tool_name() -> None:
    stored = for_tool(read_template(mcp("search", resource_uri="a://b")), "search.resource_b").model.stored()
    assert "tool_name" not in stored


@pytest.mark.parametrize("fields", [{}, {"tool_name": "find"}, {"resource_uri": "a://b"}])
def test_a_tool_of_mcp_without_one_server_is_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        for_tool(read_template(mcp("search", "files", **fields)), "find", at="/call_template")
    (error,) = caught.value.errors
    assert error.pointer == "/call_template/config/mcpServers"
    assert error.expected == ["files", "search"]


@for_each(
    ("fields", "name", "operation"),
    [
        ({}, "user", "user"),
        ({}, "shop.user", "user"),
        ({"operation_name": "other"}, "user", "other"),
        ({"query": "{ user { id } }"}, "anything-else", None),
        ({"operation_name": ""}, "user", "user"),
    ],
)
def test_a_tool_of_graphql_without_an_operation_is_the_field_of_its_name(
    fields: dict[str, Any], name: str, operation: str | None
) -> None:
    template = {"call_template_type": "graphql", "url": "https://a.example/graphql", **fields}
    assert for_tool(read_template(template), name).model.stored().get("operation_name") == operation


REJECTED = [
    ({"call_template_type": "graphql", "url": "https://a.example/"}, "no-field", ["/operation_name"]),
    ({"call_template_type": "grpc", "host": "a", "port": 1}, "Get", ["/service_name", "/method_name"]),
    ({"call_template_type": "grpc", "host": "a", "port": 1, "service_name": "S"}, "Get", ["/method_name"]),
]


@pytest.mark.parametrize(("template", "name", "pointers"), REJECTED)
def test_a_tool_that_names_nothing_to_call_is_rejected(
    template: dict[str, Any], name: str, pointers: list[str]
) -> None:
    with pytest.raises(InvalidInput, match="could never be called") as caught:
        for_tool(read_template(template), name, at="/t")
    assert [error.pointer for error in caught.value.errors] == [f"/t{at}" for at in pointers]


def test_such_a_tool_of_a_manual_loses_no_other() -> None:
    templates = {
        "lost": mcp("search", "files"),
        "search.find": mcp("search", "files"),
        "user": {"call_template_type": "graphql", "url": "https://a.example/graphql"},
        "Get": {"call_template_type": "grpc", "host": "a", "port": 1},
    }
    tools = [{"name": name, "tool_call_template": template} for name, template in templates.items()]
    manual = read_manual({"utcp_version": "1.0.1", "tools": tools})
    assert [tool.name for tool in manual.tools] == ["search.find", "user"]
    assert {tool.name: tool.errors[0].pointer for tool in manual.rejected_tools} == {
        "lost": "/tools/0/tool_call_template/config/mcpServers",
        "Get": "/tools/3/tool_call_template/service_name",
    }

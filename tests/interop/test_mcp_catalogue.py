"""Every released client of MCP lists a registry of torture documents, public APIs and odd schemas completely, in pages.

The registry is that of `filled_registry`, with one more provider for each schema that makes clients lose the whole list
of a server that publishes it unchanged.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.gateway import RunningGateway
from tests.interop.filled_registry import FilledRegistry
from tests.interop.test_mcp_clients import CLIENTS, ERAS, inspect, run

PAGE_SIZE = 100
READ_MORE = "read_more"
"""The tool of the gateway itself that reads the rest of a result."""
NOT_OFFERED = "It is not offered to agents"
_STRING = {"type": "string"}
ODD_INPUTS: dict[str, Any] = {
    "no_type": {"properties": {"a": _STRING}},
    "empty": {},
    "type_list": {"type": ["object", "null"], "properties": {"a": _STRING}},
    "any_of": {"anyOf": [{"type": "object", "properties": {"a": _STRING}}, {"type": "object"}]},
    "root_reference": {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"a": _STRING}}}},
    "required_true": {"type": "object", "properties": {"a": {"type": "string", "required": True}}, "required": True},
    "required_null": {"type": "object", "properties": {"a": _STRING}, "required": None},
    "boolean_schema": {"type": "object", "properties": {"a": True, "b": False}},
    "header": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "not a header"}}},
    "remote_reference": {"type": "object", "properties": {"a": {"$ref": "https://a.example/schema.json"}}},
    "openapi": {
        "type": "object",
        "properties": {"a": {"type": "string", "nullable": True, "format": "odd"}},
        "discriminator": {"propertyName": "a"},
    },
    "draft_4": {"type": "object", "properties": {"a": {"type": "number", "minimum": 1, "exclusiveMinimum": True}}},
    "unicode_pattern": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^\\-[a-z]*+$"}}},
}  # fmt: skip
ODD_OUTPUTS: dict[str, Any] = {
    "array": {"type": "array", "items": _STRING},
    "no_type": {"properties": {"a": _STRING}},
    "pattern": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^\\-a\\_$"}}},
    "reference": {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}},
    "draft_4": {"type": "object", "properties": {"a": {"type": "number", "minimum": 1, "exclusiveMinimum": True}}},
}  # fmt: skip
BEYOND_REPAIR: dict[str, Any] = {"nothing": {"not": {}}}
"""Schemas of tools that are registered, but not offered to agents."""
REJECTED: dict[str, Any] = {"array": {"type": "array", "items": _STRING}, "text": _STRING}
"""Schemas of tools that are not registered."""


@dataclass(frozen=True)
class Catalogue:
    """A gateway; the names of its tools by which agents call them, without those that are not offered to agents, and these."""

    gateway: RunningGateway
    offered: list[str]
    not_offered: dict[str, str]


def odd_tools() -> dict[str, dict[str, Any]]:
    """Return the odd tools by the names of their providers."""

    def tool(**fields: Any) -> dict[str, Any]:
        template = {"call_template_type": "http", "url": "https://a.example/x", "http_method": "POST"}
        return {"name": "tool", "inputs": {"type": "object"}, "tool_call_template": template, **fields}

    found = {f"odd-in-{name}": tool(inputs=schema) for name, schema in ODD_INPUTS.items()}
    found |= {f"odd-out-{name}": tool(outputs=schema) for name, schema in ODD_OUTPUTS.items()}
    found |= {f"beyond-{name}": tool(inputs=schema) for name, schema in BEYOND_REPAIR.items()}
    found |= {f"rejected-{name}": tool(inputs=schema) for name, schema in REJECTED.items()}
    found["odd-long"] = tool(name="t" * 180, description="")
    found["odd-blanks"] = tool(name="a tool with blanks")
    return found


def register_odd(admin: httpx2.Client) -> None:
    for name, tool in odd_tools().items():
        manual = {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": [tool]}
        body = {"name": name, "source": {"manual": manual}, "options": {"allow_empty": True}}
        created = admin.post("/providers", json=body)
        assert created.status_code == 201, (name, created.text)
        [operation] = created.json()["report"]["operations"]
        if name.startswith("rejected"):
            assert (operation["outcome"], bool(operation["reason"])) == ("skipped", True)
        if name.startswith("odd-out"):
            changed = admin.patch(f"/tools/{name}.tool", json={"publish_output_schema": True})
            assert changed.status_code == 200, changed.text


def all_items(admin: httpx2.Client, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = (
            admin.get(path, params={"limit": 200} | ({"cursor": cursor} if cursor else {}))
            .raise_for_status()
            .json()
        )
        items += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return items


@pytest.fixture(scope="module")
def catalogue(
    large_registry: FilledRegistry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Catalogue]:
    """The gateway with the filled registry."""
    folder = tmp_path_factory.mktemp("catalogue")
    with (
        large_registry.gateway(folder, page_size=PAGE_SIZE) as gateway,
        gateway.client(timeout=120) as admin,
    ):
        register_odd(admin)
        reasons = {}
        for provider in all_items(admin, "/providers"):
            report = admin.get(f"/providers/{provider['name']}").raise_for_status().json()["report"]
            for operation in report["operations"]:
                for note in operation["notes"]:
                    if note.startswith(NOT_OFFERED):
                        reasons[operation["name"]] = note
        tools = {tool["name"]: tool["agent_name"] for tool in all_items(admin, "/tools")}
        offered = [agent_name for name, agent_name in tools.items() if name not in reasons]
        yield Catalogue(gateway, sorted([*offered, READ_MORE]), reasons)


def test_only_tools_beyond_repair_are_not_offered(catalogue: Catalogue) -> None:
    assert sorted(catalogue.not_offered) == [f"beyond-{name}.tool" for name in sorted(BEYOND_REPAIR)]
    assert len(catalogue.offered) > 4 * PAGE_SIZE
    assert len(set(catalogue.offered)) == len(catalogue.offered)


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_lists_the_whole_registry(catalogue: Catalogue, client: str) -> None:
    found = run(client, f"{catalogue.gateway.url}/mcp/all", catalogue.gateway.key, [])
    assert sorted(found["tools"]) == catalogue.offered


def test_find_tools_finds_what_the_search_finds(catalogue: Catalogue) -> None:
    """For a sentence of every tenth tool, the same tools in the same order, of which it is mostly one."""
    with catalogue.gateway.client(timeout=60) as admin:
        every = all_items(admin, "/tools")
        agent_names = {tool["name"]: tool["agent_name"] for tool in every}
        tools = [tool for tool in every if tool["description"]][::10]
        found = 0
        for tool in tools:
            query = " ".join(tool["description"].split()[:12])[:200]
            hits = (
                admin.get("/tools/search", params={"q": query, "limit": 20})
                .raise_for_status()
                .json()["items"]
            )
            expected = [agent_names[hit["name"]] for hit in hits]
            assert _find(admin, query) == expected, query
            found += tool["agent_name"] in expected
    assert found > len(tools) / 2


def _find(admin: httpx2.Client, query: str) -> list[str]:
    params = {"name": "find_tools", "arguments": {"query": query, "limit": 20}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    result = admin.post("/mcp", json=message).raise_for_status().json()["result"]
    return [tool["name"] for tool in result["structuredContent"]["tools"]]


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_the_whole_registry(catalogue: Catalogue, tmp_path: Path, era: str) -> None:
    gateway = catalogue.gateway
    names: list[str] = []
    cursor: list[str] = []
    while True:
        shown = json.loads(
            inspect(f"{gateway.url}/mcp/all", gateway.key, era, tmp_path, "--method", "tools/list", *cursor)
        )
        names += [tool["name"] for tool in shown["tools"]]
        if "nextCursor" not in shown:
            break
        cursor = ["--cursor", shown["nextCursor"]]
    assert sorted(names) == catalogue.offered

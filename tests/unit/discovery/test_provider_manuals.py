"""A manual is put together from bytes that were rendered once."""

import gzip
from datetime import UTC, datetime
from uuid import uuid4

import orjson

from app.catalog.tools import ToolView
from app.discovery.provider_manuals import ManualSelection, ProviderManual, compose, render_tools
from app.models import TENANT
from app.security.principal import Principal

EVERYBODY = Principal(key_id="k", name="n", tenant_id=TENANT, scopes=frozenset({"tools:read"}))


def tool(name, **fields):
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    columns = {
        "id": uuid4(), "provider_id": uuid4(), "provider": "p", "name": f"p.{name}", "alias": f"p_{name}",
        "description": "d", "inputs": {"type": "object"}, "outputs": {}, "tags": [], "registrar_tags": frozenset(),
        "enabled": True, "deprecated": False, "custom": False, "version": 1, "call_template": {},
        "security": [], "average_response_size": None, "created_at": moment, "updated_at": moment, **fields,
    }  # fmt: skip
    return ToolView(**columns)


def manual(tools, **selection):
    provider_manual = ProviderManual("p", tuple(render_tools(tools, version=1, base_url="https://g.example")))
    return compose([provider_manual], selection=ManualSelection(version=1, **selection), principal=EVERYBODY)


def test_a_tool_that_cannot_be_rendered_is_left_out_and_harms_no_other():
    made = manual([tool("a", tags=["\ud800"]), tool("b")])
    assert [entry["name"] for entry in orjson.loads(made.body)["tools"]] == ["p_b"]


def test_the_same_tools_give_the_same_bytes_and_tag_on_every_replica():
    tools = [tool("a"), tool("b")]
    first, second = manual(tools), manual(tools)
    assert (first.body, first.etag) == (second.body, second.etag)
    assert first.compressed() == second.compressed()
    assert gzip.decompress(first.compressed()) == first.body


def test_an_empty_search_leaves_an_empty_manual():
    assert orjson.loads(manual([tool("a")], matching=frozenset()).body)["tools"] == []


def test_a_manual_of_thousands_of_tools_is_one_list():
    names = [f"t{number}" for number in range(2_500)]
    made = manual([tool(name) for name in names])
    assert [entry["name"] for entry in orjson.loads(made.body)["tools"]] == [f"p_{name}" for name in names]

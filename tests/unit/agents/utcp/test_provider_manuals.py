"""A manual is put together from bytes that were rendered once."""

import gzip
from datetime import UTC, datetime
from uuid import uuid4

import orjson

from app.agents.utcp.provider_manuals import ManualSelection, ProviderManual, compose, render_tools
from app.catalog.tools import ToolView
from app.security.principal import Principal
from app.storage.models import TENANT
from tests.harness.cases import for_each

EVERYBODY = Principal(key_id="k", name="n", tenant_id=TENANT, scopes=frozenset({"tools:read"}))


def tool(name, **fields):
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    columns = {
        "id": uuid4(), "provider_id": uuid4(), "provider": "p", "name": f"p.{name}", "alias": f"p_{name}", "agent_name": f"p_{name}",
        "description": "d", "inputs": {"type": "object"}, "outputs": {}, "tags": [], "registrar_tags": frozenset(),
        "enabled": True, "deprecated": False, "custom": False, "requires_approval": False, "version": 1, "call_template": {},
        "security": [], "average_response_size": None, "created_at": moment, "updated_at": moment, **fields,
    }  # fmt: skip
    return ToolView(**columns)


def manual(tools, **selection):
    provider_manual = ProviderManual("p", tuple(render_tools(tools, version=1, base_url="https://g.example")))
    return compose([provider_manual], selection=ManualSelection(version=1, **selection), principal=EVERYBODY)


def test_a_tool_that_cannot_be_rendered_is_left_out_and_counted_and_harms_no_other():
    made = manual([tool("a", tags=[object()]), tool("b")])
    assert [entry["name"] for entry in orjson.loads(made.body)["tools"]] == ["p_b"]
    assert (made.tools, made.left_out) == (1, 1)


def test_a_tool_that_is_not_selected_is_not_counted_as_left_out():
    made = manual([tool("a", tags=[object()]), tool("b", tags=["t"])], tag="t")
    assert (made.tools, made.left_out) == (1, 0)


@for_each(
    ("template", "streams"),
    [
        ({"call_template_type": "sse", "url": "https://a.example/"}, True),
        ({"call_template_type": "streamable_http", "url": "https://a.example/"}, True),
        (
            {"call_template_type": "graphql", "url": "https://a.example/", "operation_type": "subscription"},
            True,
        ),
        ({"call_template_type": "graphql", "url": "https://a.example/", "operation_type": "query"}, False),
        ({"call_template_type": "grpc", "host": "a", "port": 1, "server_streaming": True}, True),
        ({"call_template_type": "grpc", "host": "a", "port": 1}, False),
        ({"call_template_type": "http", "headers": {"accept": "application/json, text/event-stream"}}, True),
        ({"call_template_type": "http", "accept": "text/event-stream, */*;q=0.1"}, True),
        ({"call_template_type": "http", "accept": "application/json, */*;q=0.1"}, False),
        ({"call_template_type": "http", "headers": {"Accept": "application/x-ndjson;q=0.5"}}, True),
        ({"call_template_type": "http", "headers": {"Accept": "application/json"}}, False),
        ({"call_template_type": "http"}, False),
        ({"call_template_type": "tcp", "host": "a", "port": 1}, False),
    ],
)
@for_each("version", [0, 1])
def test_tools_that_stream_are_given_as_streamable_http_where_that_is_selected(template, streams, version):
    view = tool("a", call_template=template)
    provider = ProviderManual("p", tuple(render_tools([view], version=version, base_url="https://g.example")))
    for streaming in (False, True):
        selection = ManualSelection(version=version, streaming=streaming)
        made = orjson.loads(compose([provider], selection=selection, principal=EVERYBODY).body)
        [entry] = made["tools"]
        found = entry["tool_call_template"] if version else entry["tool_provider"]
        kind = found["call_template_type"] if version else found["provider_type"]
        if streams and streaming:
            assert (kind, found["timeout"]) == ("streamable_http" if version else "http_stream", 86_400_000)
            accept = "application/x-ndjson;form=values, application/octet-stream"
            assert found["headers"]["Accept"] == accept
        else:
            assert (kind, found["headers"]["Accept"]) == ("http", "application/json")
        assert (found["http_method"], found["body_field"], found["content_type"]) == (
            "POST",
            "body",
            "application/json",
        )


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

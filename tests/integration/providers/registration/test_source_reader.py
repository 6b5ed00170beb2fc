"""Sources -> ParsedSource, below the API."""

import orjson
import pytest

from app.core.errors import InvalidDocument, InvalidInput
from app.providers.credentials.model import CredentialSlot, SlotRequirement, ValueLocation
from app.providers.registration.model import DocumentOptions, RegistrationSource
from app.providers.registration.source_reader import with_server_template
from tests.unit.providers.registration.documents import API, document


@pytest.mark.parametrize(("name", "whole"), [("read", True), ("cost$", True), ("x${AWS_KEY}", False)])
def test_introspected_tool_template_names_no_variables(name, whole):
    part = {"call_template_type": "mcp", "config": {"mcpServers": {"s": {"url": "${BASE}/mcp"}}}}
    merged = with_server_template(part, {"name": name, "tool_call_template": {"tool_name": name}})[
        "tool_call_template"
    ]
    assert merged == ({**part, "tool_name": name} if whole else None)


def tool(name, url=f"{API}/x", **template):
    return {
        "name": name,
        "description": f"Does {name}",
        "inputs": {"type": "object", "properties": {}},
        "tool_call_template": {"call_template_type": "http", "http_method": "GET", "url": url, **template},
    }


def manual(*tools):
    return {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": list(tools)}


async def test_manual_is_read_with_its_secrets_apart(reader, context):
    source = RegistrationSource("manual", value=manual(tool("a", headers={"X-Key": "secret"}), tool("b")))
    parsed = await reader.read(source, context())
    first, second = parsed.tools
    assert first.security == (
        (SlotRequirement("static-1"), SlotRequirement("default")),
        (SlotRequirement("static-1"),),
    )
    assert second.security == ((SlotRequirement("default"),), ())
    assert parsed.inline[0].credential.secrets["headers"] == {"X-Key": "secret"}
    assert parsed.slots[0].values == (ValueLocation("header", "X-Key"),)
    assert "secret" not in str([one.definition.columns() for one in parsed.tools])
    assert (parsed.kind, parsed.format) == ("manual", "manual")
    assert orjson.loads(parsed.source.body) == source.value


async def test_slot_of_an_earlier_import_stays_with_its_content(reader, context):
    value = manual(tool("a", headers={"X-Key": "one"}), tool("b", headers={"X-Key": "two"}))
    earlier = await reader.read(RegistrationSource("manual", value=value), context())
    again = manual(*reversed(value["tools"]))
    later = await reader.read(RegistrationSource("manual", value=again), context(slots=earlier.slots))
    needs = {one.name: one.security for one in earlier.tools}
    assert {one.name: one.security for one in later.tools} == needs


async def test_tool_that_cannot_be_called_is_skipped_with_the_reason(reader, context):
    value = manual(tool("good"), tool("bad", url="ftp://files.example/x"))
    parsed = await reader.read(RegistrationSource("manual", value=value), context())
    assert [one.name for one in parsed.tools] == ["good"]
    outcomes = {one.source_key: one.outcome for one in parsed.report.operations}
    assert outcomes == {"good": "accepted", "bad": "skipped"}


async def test_tool_that_agents_clients_do_not_accept_is_reported(reader, context):
    value = manual(tool("good"), tool("never") | {"inputs": {"type": "object", "not": {}}})
    parsed = await reader.read(RegistrationSource("manual", value=value), context())
    notes = {one.source_key: one.notes for one in parsed.report.operations}
    assert notes["good"] == ()
    assert notes["never"] == ("It is not offered to agents (MCP and exports): The schema accepts no value.",)


async def test_uploaded_document_is_converted_in_a_child_process(reader, context):
    body = document("/pets", "/owners")
    source = RegistrationSource("document", body, "application/json")
    parsed = await reader.read(source, context(options={"base_url": API}))
    assert [one.source_key for one in parsed.tools] == ["GET /pets", "GET /owners"]
    assert parsed.source.body == body
    assert parsed.named_origins == (API,)


async def test_document_of_neither_kind_is_rejected(reader, context):
    with pytest.raises(InvalidDocument) as caught:
        await reader.read(RegistrationSource("document", b'{"pets": 1}', at="/source"), context())
    assert caught.value.errors[0].pointer == "/source"


async def test_options_of_documents_are_rejected_for_a_manual(reader, context):
    options = DocumentOptions(root="x.yaml")
    source = RegistrationSource("manual", value=manual(tool("a")), options=options)
    with pytest.raises(InvalidInput, match="none of these"):
        await reader.read(source, context())


async def test_export_reports_variables_without_a_value(reader, context):
    value = {
        "tools": [{**tool("a", url="https://${HOST}/x"), "source_key": "a"}],
        "slots": [{"slot": "key", "kind": "api_key", "location": "header", "name": "X-Key"}],
        "call_template": {},
    }
    value["tools"][0]["call_template"] = value["tools"][0].pop("tool_call_template")
    parsed = await reader.read(RegistrationSource("tools", value=value), context())
    assert parsed.slots == (CredentialSlot("key", "api_key", location="header", parameter="X-Key"),)
    assert parsed.report.warnings[0].detail == "The variable HOST has no value: set it before calling."
    assert (parsed.kind, parsed.format, parsed.tools[0].origin) == ("manual", "export", "")

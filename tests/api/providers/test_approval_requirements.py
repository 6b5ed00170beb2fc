"""A required approval outlives the tool: only who may decide about calls removes it."""

import asyncio
from copy import deepcopy

import pytest
from sqlalchemy import text

from app.providers.registration.approval_requirements import ApprovalRequirements
from app.providers.registration.repository import lock_names
from tests.harness.application import run_application
from tests.harness.cases import for_each

DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Bank", "version": "1"},
    "paths": {
        "/transfers/{id}": {
            "post": {
                "operationId": "transfer",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                "responses": {"200": {"description": "Done."}},
            }
        },
        "/balance": {"get": {"operationId": "balance", "responses": {"200": {"description": "Done."}}}},
    },
}


def document(upstream, **changes):
    return {**deepcopy(DOCUMENT), "servers": [{"url": upstream.url}], **changes}


def custom(upstream, name, path="/transfers/{id}", method="POST", **members):
    inputs = {"type": "object", "properties": {"id": {"type": "string"}}}
    template = {
        "call_template_type": "http",
        "http_method": method,
        "url": f"{upstream.url}{path}",
        **members,
    }
    return {"provider": "own", "name": name, "inputs": inputs, "call_template": template}


@pytest.fixture
async def writer(gateway_app):
    """A key that may register, and not decide."""
    return await gateway_app.client("providers:write", "providers:read", "tools:read", "tools:call")


@pytest.fixture
async def decider(gateway_app):
    return await gateway_app.client("approvals:decide")


@pytest.fixture
async def bank(admin, writer, upstream):
    """A provider whose tool `bank.transfer` requires approval."""
    made = await writer.post("/providers", json={"name": "bank", "source": {"document": document(upstream)}})
    assert made.status_code == 201, made.text
    changed = await writer.patch("/tools/bank.transfer", json={"requires_approval": True})
    assert changed.json()["requires_approval"] is True


async def added(client, body):
    """Add a custom tool, and return whether its calls require approval."""
    made = await client.post("/tools", json=body)
    assert made.status_code == 201, made.text
    return await requires(client, f"own.{body['name']}")


async def requires(client, tool):
    found = await client.get(f"/tools/{tool}")
    assert found.status_code == 200, found.text
    return found.json()["requires_approval"]


async def requirements(client, **query):
    found = await client.get("/approval-requirements", params=query)
    assert found.status_code == 200, found.text
    return found.json()["items"]


async def test_requirement_is_kept_when_a_provider_is_deleted_and_registered_again(
    writer, decider, bank, upstream
):
    assert (await writer.delete("/providers/bank")).status_code == 204
    for name in ("bank", "another"):
        body = {"name": name, "source": {"document": document(upstream)}}
        assert (await writer.post("/providers", json=body)).status_code == 201
        assert await requires(writer, f"{name}.transfer") is True
        assert await requires(writer, f"{name}.balance") is False
    waiting = await writer.post("/tools/another.transfer/call", json={"id": "1"})
    assert waiting.status_code == 202, waiting.text
    assert upstream.seen == []
    denied = await writer.patch("/tools/another.transfer", json={"requires_approval": False})
    assert denied.json()["missing_scopes"] == ["approvals:decide"]


async def test_decision_against_approval_is_for_who_may_decide_also_before_anything_requires_it(
    admin, writer, decider, upstream
):
    made = await writer.post("/providers", json={"name": "early", "source": {"document": document(upstream)}})
    assert made.status_code == 201, made.text
    denied = await writer.patch("/tools/early.transfer", json={"requires_approval": False})
    assert denied.json()["missing_scopes"] == ["approvals:decide"]
    assert denied.json()["errors"][0]["pointer"] == "/requires_approval"
    assert (await writer.patch("/tools/early.transfer", json={"requires_approval": None})).status_code == 200
    switched = [{"tool": "early.transfer", "patch": {"requires_approval": one}} for one in (True, False)]
    changed = await writer.post("/tools:batch", json={"operations": switched, "dry_run": True})
    assert [item["status"] for item in changed.json()["items"]] == [200, 403]
    exported = (await admin.get("/export")).json()
    (provider,) = [one for one in exported["providers"] if one["name"] == "early"]
    key = "POST /transfers/{id}"
    provider["overrides"] = {key: {"requires_approval": False}}
    assert (await writer.delete("/providers/early")).status_code == 204
    document_of_one = {"format": exported["format"], "providers": [provider]}
    imported = (await writer.post("/import", json=document_of_one)).json()
    assert [(item["status"], item["problem"]["errors"][0]["pointer"]) for item in imported["entries"]] == [
        (403, f"/providers/0/overrides/{key.replace('/', '~1')}/requires_approval")
    ]
    assert (await admin.post("/import", json=document_of_one)).json()["entries"][0]["status"] == 201
    # What an approver has decided holds; what nobody has, does not.
    await writer.post("/providers", json={"name": "other", "source": {"document": document(upstream)}})
    await writer.patch("/tools/other.transfer", json={"requires_approval": True})
    assert await requires(writer, "early.transfer") is False


@for_each(
    "path",
    [
        "/transfers/{id}", "/transfers/5", "/Transfers/{x}/", "/%74ransfers/{id}?a={id}", "//transfers/{id}",
        "/transfers/5{?id}", "/transfers/5{#id}", "/{id}",
    ],
)  # fmt: skip
async def test_requirement_holds_for_the_operation_under_any_name(admin, writer, bank, upstream, path):
    name = f"t{abs(hash(path))}"
    body = custom(upstream, name, path)
    assert await added(writer, body) is True
    assert (await writer.delete(f"/tools/own.{name}")).status_code == 204
    assert await added(writer, body) is True


@for_each("host", ["localhost", "LOCALHOST.", "127.1", "2130706433", "[::ffff:127.0.0.1]"])
async def test_requirement_holds_for_every_spelling_of_the_address(admin, writer, bank, upstream, host):
    url = upstream.url.replace("127.0.0.1", host)
    assert url != upstream.url
    body = custom(upstream, f"h{abs(hash(host))}", url=f"{url}/transfers/{{id}}")
    assert await added(admin, body) is True


async def test_requirement_holds_for_the_text_of_the_request_over_a_socket(admin, bank, upstream):
    port = int(upstream.url.rpartition(":")[2])
    body = custom(upstream, "text")
    for at, is_required in ((port, True), (port % 65535 + 1, False)):
        body["call_template"] = {
            "call_template_type": "tcp", "host": "localhost", "port": at,
            "request_data_format": "text", "request_data_template": "POST /transfers/5 HTTP/1.0",
        }  # fmt: skip
        body["name"] = f"text_{at}"
        assert await added(admin, body) is is_required, at


async def test_other_operations_need_no_approval(writer, bank, upstream):
    for name, path, method in (
        ("a", "/transfers", "POST"),
        ("b", "/transfers/{id}", "GET"),
        ("c", "/x", "POST"),
    ):
        assert await added(writer, custom(upstream, name, path, method)) is False, path


async def test_requirement_holds_for_what_a_refresh_brings(admin, writer, bank, upstream):
    page = document(upstream)
    page["paths"] = {"/other": page["paths"]["/balance"]}
    upstream.pages["/openapi.json"] = page
    source = {"url": f"{upstream.url}/openapi.json"}
    assert (await writer.post("/providers", json={"name": "later", "source": source})).status_code == 201
    upstream.pages["/openapi.json"] = document(upstream)
    refreshed = await writer.post("/providers/later/refresh")
    assert refreshed.status_code == 200, refreshed.text
    assert await requires(writer, "later.transfer") is True


async def test_requirement_holds_for_a_tool_that_becomes_the_operation(writer, bank, upstream):
    def manual(path):
        template = {"call_template_type": "http", "http_method": "POST", "url": f"{upstream.url}{path}"}
        inputs = {"type": "object", "properties": {"id": {"type": "string"}}}
        tool = {"name": "pay", "description": "", "inputs": inputs, "tool_call_template": template}
        return {"utcp_version": "1.0.1", "manual_version": "1", "tools": [tool]}

    upstream.pages["/utcp"] = manual("/harmless/{id}")
    template = {"call_template_type": "http", "name": "manual", "url": f"{upstream.url}/utcp"}
    made = await writer.post("/providers", json={"name": "manual", "source": {"call_template": template}})
    assert made.status_code == 201, made.text
    assert await requires(writer, "manual.pay") is False
    upstream.pages["/utcp"] = manual("/transfers/{id}")
    refreshed = await writer.post("/providers/manual/refresh")
    assert refreshed.status_code == 200, refreshed.text
    assert await requires(writer, "manual.pay") is True


async def test_existing_tool_keeps_what_was_decided_about_it(gateway_app, admin, writer, bank, upstream):
    upstream.pages["/openapi.json"] = document(upstream)
    source = {"url": f"{upstream.url}/openapi.json"}
    await writer.post("/providers", json={"name": "copy", "source": source})
    both = await gateway_app.client("providers:write", "approvals:decide")
    assert (await both.patch("/tools/copy.transfer", json={"requires_approval": False})).status_code == 200
    changed = document(upstream)
    changed["paths"]["/transfers/{id}"]["post"]["summary"] = "Send money"
    upstream.pages["/openapi.json"] = changed
    assert (await writer.post("/providers/copy/refresh")).status_code == 200
    assert await requires(writer, "copy.transfer") is False
    # The other tool of this operation requires approval still, so a new one does, too.
    assert await added(writer, custom(upstream, "fresh")) is True


async def test_exported_tool_cannot_bring_an_end_of_the_requirement(admin, writer, bank, upstream):
    exported = (await admin.get("/export")).json()
    provider = next(one for one in exported["providers"] if one["name"] == "bank")
    key = next(key for key in provider["overrides"])
    provider["overrides"][key]["requires_approval"] = False
    provider["name"] = "imported"
    body = {**exported, "providers": [provider]}
    assert [entry["status"] for entry in (await writer.post("/import", json=body)).json()["entries"]] == [403]
    made = await admin.post("/import", json=body)
    assert [entry["status"] for entry in made.json()["entries"]] == [201], made.text
    assert await requires(writer, "imported.transfer") is True


async def test_requirement_is_listed_and_removed_by_who_may_decide(admin, writer, decider, bank, upstream):
    (kept,) = await requirements(decider)
    assert kept["operation"] == f"POST {upstream.url}/transfers/{{}}"
    assert (kept["tool"], kept["provider"], kept["method"]) == ("bank.transfer", "bank", "POST")
    path = f"/approval-requirements/{kept['id']}"
    assert (await decider.get(path)).json() == kept
    for method in ("GET", "DELETE"):
        denied = await writer.request(method, path)
        assert (denied.status_code, denied.json()["missing_scopes"]) == (403, ["approvals:decide"])
    held = await decider.delete(path)
    assert (held.status_code, "bank.transfer" in held.json()["detail"]) == (409, True)
    await writer.delete("/providers/bank")
    assert (await decider.delete(path)).status_code == 204
    assert (await decider.delete(path)).status_code == 404
    assert await added(writer, custom(upstream, "free")) is False
    events = (await admin.get("/events?object_type=approval-requirement&sort=at")).json()["items"]
    assert {(one["action"], one["object_name"]) for one in events} == {
        ("created", kept["id"]), ("deleted", kept["id"]),
    }  # fmt: skip
    assert all(one["detail"]["operation"] == kept["operation"] for one in events)


async def test_freeing_the_tool_removes_the_requirement(gateway_app, writer, decider, bank, upstream):
    both = await gateway_app.client("providers:write", "approvals:decide")
    assert (await both.patch("/tools/bank.transfer", json={"requires_approval": None})).status_code == 200
    assert await requirements(decider) == []
    assert await added(writer, custom(upstream, "free")) is False


async def test_limited_key_sees_the_requirements_of_its_providers(gateway_app, bank):
    for limits, count in (({"providers": ["bank"]}, 1), ({"providers": ["other"]}, 0), ({"tags": ["x"]}, 0)):
        limited = await gateway_app.client("approvals:decide", **limits)
        assert len(await requirements(limited)) == count, limits
    limited = await gateway_app.client("approvals:decide")
    assert len(await requirements(limited, q="transfers", provider="bank")) == 1
    assert await requirements(limited, q="nothing") == []


async def test_requirement_of_before_the_upgrade_is_kept(gateway_app, writer, decider, bank, upstream):
    async with gateway_app.services.database.transaction() as session:
        await session.execute(text("DELETE FROM approval_requirements"))
    assert await added(writer, custom(upstream, "same")) is True
    assert len(await requirements(decider)) == 1


async def test_requirement_of_before_the_upgrade_is_kept_by_the_start(gateway_app, decider, bank):
    [before] = await requirements(decider)
    async with gateway_app.services.database.transaction() as session:
        await session.execute(text("DELETE FROM approval_requirements"))
    async with run_application(gateway_app.settings):
        for _ in range(500):
            if found := await requirements(decider):
                break
            await asyncio.sleep(0.02)
    [kept] = found
    assert (kept["operation"], kept["tool"]) == (before["operation"], before["tool"])
    assert kept["created_by"] == "upgrade"


async def test_start_takes_no_lock_for_a_tool_that_got_the_requirement_of_another(
    gateway_app, writer, bank, upstream
):
    assert await added(writer, custom(upstream, "same")) is True
    database = gateway_app.services.database
    async with database.transaction() as session:
        await lock_names(session)
        # It would wait for the lock, which this test holds.
        await ApprovalRequirements(database).keep_existing()


async def test_variable_in_the_template_hides_nothing(admin, writer, bank, upstream):
    put = await admin.put("/variables/PART", json={"value": "transfers", "secret": False})
    assert put.is_success
    assert await added(writer, custom(upstream, "by_variable", "/${PART}/{id}")) is True


async def test_variable_that_changes_the_operation_brings_the_requirement(admin, writer, bank, upstream):
    assert (await admin.put("/variables/PART", json={"value": "harmless", "secret": False})).is_success
    assert (await admin.put("/variables/OTHER", json={"value": "harmless", "secret": False})).is_success
    assert await added(writer, custom(upstream, "by_shared", "/${PART}")) is False
    assert await added(writer, custom(upstream, "by_other", "/${OTHER}")) is False
    version = (await writer.get("/tools/own.by_shared")).headers["etag"]
    assert (await admin.put("/variables/PART", json={"value": "transfers/5", "secret": False})).is_success
    assert await requires(writer, "own.by_shared") is True
    assert (await writer.get("/tools/own.by_shared")).headers["etag"] != version
    assert await requires(writer, "own.by_other") is False
    waiting = await writer.post("/tools/own.by_shared/call", json={"id": "1"})
    assert waiting.status_code == 202, waiting.text


async def test_deleted_variable_that_changes_the_operation_brings_the_requirement(
    admin, writer, bank, upstream
):
    assert (await admin.put("/variables/PART", json={"value": "transfers", "secret": False})).is_success
    body = custom(upstream, "by_own", "/${PART}/5") | {"variables": {"PART": {"value": "x", "secret": False}}}
    assert await added(admin, body) is False
    deleted = await admin.delete("/providers/own/variables/PART")
    assert deleted.status_code == 204, deleted.text
    assert await requires(writer, "own.by_own") is True


async def test_variable_of_a_new_tool_brings_the_requirement_to_the_others(admin, writer, bank, upstream):
    assert (await admin.put("/variables/PART", json={"value": "x", "secret": False})).is_success
    assert await added(admin, custom(upstream, "before", "/${PART}/5")) is False
    own = {"PART": {"value": "transfers", "secret": False}}
    assert await added(admin, custom(upstream, "with_it", "/harmless") | {"variables": own}) is False
    assert await requires(writer, "own.before") is True


async def test_requirement_spreads_no_further_than_to_the_calls_of_the_operation(
    admin, writer, decider, bank, upstream
):
    assert await added(writer, custom(upstream, "wide", "/{id}")) is True
    body = custom(upstream, "text")
    port = int(upstream.url.rpartition(":")[2])
    body["call_template"] = {"call_template_type": "tcp", "host": "127.0.0.1", "port": port}
    assert await added(admin, body) is True
    assert await added(writer, custom(upstream, "harmless", "/harmless")) is False
    assert len(await requirements(decider)) == 1
    # A person who requires it of the wide tool means all of its calls.
    assert (await writer.patch("/tools/own.wide", json={"requires_approval": True})).status_code == 200
    assert await requires(writer, "own.harmless") is True
    assert len(await requirements(decider)) == 2
    # `own.harmless` got it from the wide tool, and keeps its own only when a person requires it of this one.
    assert await added(writer, custom(upstream, "harmless_too", "/harmless")) is True
    assert len(await requirements(decider)) == 2
    assert (await writer.patch("/tools/own.harmless", json={"requires_approval": True})).status_code == 200
    assert len(await requirements(decider)) == 3


async def test_freed_operation_stays_free_when_a_tool_of_it_requires_approval_still(
    gateway_app, writer, bank, upstream
):
    assert await added(writer, custom(upstream, "harmless", "/harmless")) is False
    assert await added(writer, custom(upstream, "wide", "/{id}")) is True
    both = await gateway_app.client("providers:write", "approvals:decide")
    assert (await both.patch("/tools/bank.transfer", json={"requires_approval": None})).status_code == 200
    assert await added(writer, custom(upstream, "get", "/other", "GET")) is False
    assert await requires(writer, "bank.transfer") is False
    assert await requires(writer, "own.harmless") is False


async def test_imported_requirement_holds_for_tools_that_make_the_same_calls_already(
    admin, decider, bank, upstream
):
    exported = (await admin.get("/export")).json()
    assert (await admin.delete("/providers/bank")).status_code == 204
    (kept,) = await requirements(decider)
    assert (await decider.delete(f"/approval-requirements/{kept['id']}")).status_code == 204
    assert await added(admin, custom(upstream, "before")) is False
    made = await admin.post("/import", json=exported)
    assert made.is_success, made.text
    assert await requires(admin, "own.before") is True


async def test_limited_decider_cannot_free_what_is_required_outside_its_limits(
    gateway_app, writer, decider, bank, upstream
):
    assert await added(writer, custom(upstream, "copy")) is True
    assert await added(writer, custom(upstream, "wide", "/{id}")) is True
    assert await added(writer, custom(upstream, "mine", "/mine")) is False
    assert (await writer.patch("/tools/own.mine", json={"requires_approval": True})).status_code == 200
    count = len(await requirements(decider))
    limited = await gateway_app.client("providers:write", "approvals:decide", providers=["own"])
    for name in ("copy", "wide"):
        for value in (False, None):
            denied = await limited.patch(f"/tools/own.{name}", json={"requires_approval": value})
            assert denied.status_code == 403, denied.text
            assert "outside the limits" in denied.json()["detail"]
        assert await requires(writer, f"own.{name}") is True
    assert len(await requirements(decider)) == count
    freed = await limited.patch("/tools/own.mine", json={"requires_approval": False})
    assert freed.status_code == 200, freed.text
    assert len(await requirements(decider)) == count - 1


async def test_requirement_holds_for_tools_that_make_the_same_calls_already(
    gateway_app, admin, writer, upstream
):
    source = {"document": document(upstream)}
    for name in ("bank", "copy", "decided"):
        assert (await writer.post("/providers", json={"name": name, "source": source})).status_code == 201
    assert await added(writer, custom(upstream, "wide", "/{id}")) is False
    assert await added(writer, custom(upstream, "harmless", "/harmless")) is False
    both = await gateway_app.client("providers:write", "approvals:decide")
    assert (await both.patch("/tools/decided.transfer", json={"requires_approval": False})).status_code == 200
    version = (await writer.get("/tools/copy.transfer")).headers["etag"]
    changed = await writer.patch("/tools/bank.transfer", json={"requires_approval": True})
    assert changed.json()["requires_approval"] is True
    found = {
        name: await requires(writer, name)
        for name in ("copy.transfer", "own.wide", "decided.transfer", "own.harmless", "copy.balance")
    }
    assert [name for name, is_required in found.items() if is_required] == ["copy.transfer", "own.wide"]
    assert (await writer.get("/tools/copy.transfer")).headers["etag"] != version
    waiting = await writer.post("/tools/copy.transfer/call", json={"id": "1"})
    assert (waiting.status_code, upstream.seen) == (202, [])
    events = (await admin.get("/events?object_type=tool&object_name=copy.transfer")).json()["items"]
    assert "the operation requires approval" in [one["detail"].get("reason") for one in events]

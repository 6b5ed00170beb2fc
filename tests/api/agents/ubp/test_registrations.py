"""What executors may register, and what operators see of it."""

import pytest

from tests.api.agents.ubp.conftest import defined, executor_of
from tests.harness.cases import for_each
from tests.harness.ubp_peers import connected

ADDRESS = {"call_template_type": "http", "url": "http://127.0.0.1:9/"}


@pytest.fixture(scope="module")
async def application(pair):
    return pair[0]


@pytest.fixture(scope="module")
async def admin(application):
    return await application.client("admin")


async def answered(application, executor, tools):
    """The status of the response to a registration by a new key, and its value."""
    async with executor_of(application) as peer:
        response = await peer.request(
            "agent.register_tools", {"tools": tools}, role="executor", executor=executor
        )
    return response["status"], response["result"]["value"]


async def is_stored(client, provider):
    return (await client.get(f"/providers/{provider}")).status_code == 200


@for_each(
    ("tools", "pointer"),
    [
        ([defined("run"), defined("agent.run")], "/arguments/tools/1/name"),
        ([defined("command.run")], "/arguments/tools/0/name"),
        ([defined("run"), defined("walk"), defined("run")], "/arguments/tools/2/name"),
        ([defined("run"), defined("")], "/arguments/tools/1/name"),
        ([defined(f"run{number}") for number in range(1_001)], "/arguments/tools"),
        ([defined("run"), {**defined("walk"), "jsonSchema": "{"}], "/arguments/tools/1/jsonSchema"),
        ([{**defined("run"), "jsonSchema": {"type": "array"}}], "/arguments/tools/0/jsonSchema"),
    ],
    ids=["agent", "command", "twice", "unnamed", "too-many", "no-json", "no-object"],
)
async def test_a_registration_with_a_definition_that_is_not_valid_stores_nothing(
    application, admin, tools, pointer
):
    status, problem = await answered(application, "invalid", tools)
    assert (status, [one["pointer"] for one in problem["errors"]]) == ("INVALID_ARGUMENT", [pointer])
    assert not await is_stored(admin, "invalid")


@for_each(
    "schema",
    [7, {"type": 5}, {"type": "no-such-type"}, {"pattern": "("}, {"$ref": "#/$defs/absent"}],
    ids=str,
)
async def test_tools_are_stored_and_called_whose_schemas_have_a_part_that_is_not_valid(
    application, admin, schema
):
    async with executor_of(application) as peer:
        await peer.register("mixed", defined("odd", properties={"a": schema}), defined("plain"))
        for tool in ("odd", "plain"):
            response = await admin.post(f"/tools/mixed.{tool}/call", json={})
            assert (response.status_code, response.json()) == (200, "Shipped")


async def test_a_name_of_another_provider_is_rejected_and_the_provider_stays_as_it_is(application, admin):
    manual = {
        "utcp_version": "1.0.1",
        "tools": [{"name": "run", "description": "Run.", "tool_call_template": ADDRESS}],
    }
    response = await admin.post("/providers", params={"name": "taken"}, json=manual)
    assert response.status_code == 201, response.text
    before = (await admin.get("/providers/taken")).json()
    status, problem = await answered(application, "taken", [defined("run")])
    assert (status, problem["type"]) == ("ERROR", "urn:utcp-gateway:problem:conflict")
    assert (await admin.get("/providers/taken")).json() == before
    assert (await admin.get("/tools/taken.run")).json()["available"] is None


@pytest.mark.parametrize(
    "limits", [{"providers": ["billing"]}, {"tags": ["team-a"]}, {"toolsets": ["support"]}], ids=str
)
async def test_a_limited_key_registers_nothing_outside_of_its_limits(application, admin, limits):
    body = {"name": "limited", "scopes": ["executors:connect"], "allow_unknown_providers": True, **limits}
    created = await admin.post("/keys", json=body)
    assert created.status_code == 201, created.text
    async with connected(application, created.json()["key"]) as peer:
        response = await peer.request(
            "agent.register_tools", {"tools": [defined("run")]}, role="executor", executor="outside"
        )
    status, problem = response["status"], response["result"]["value"]
    assert (status, problem["type"]) == ("PERMISSION_DENIED", "urn:utcp-gateway:problem:forbidden")
    assert not await is_stored(admin, "outside")
    assert (await admin.get("/executors", params={"executor": "outside"})).json()["items"] == []


async def test_what_operators_have_changed_survives_registrations(application, admin):
    changed = {"description": "Ours.", "enabled": False, "requires_approval": True, "tags": ["kept"]}
    async with executor_of(application) as peer:
        await peer.register("owned", defined("run", "Theirs."), defined("walk"))
        assert (await admin.patch("/tools/owned.run", json=changed)).status_code == 200
        for tools in (
            (defined("run", "Theirs, newer.", properties={"a": {"type": "string"}}), defined("walk")),
            (defined("walk"),),
            (defined("run", "Theirs, back."), defined("walk")),
        ):
            assert (await peer.register("owned", *tools))["changed"] is True
            response = await admin.get("/tools/owned.run")
            assert (response.status_code == 200) is (len(tools) == 2)
            if response.status_code == 200:
                assert {name: response.json()[name] for name in changed} == changed


async def test_the_history_of_a_tool_has_what_registrations_changed(application, admin):
    async with executor_of(application) as peer:
        await peer.register("told", defined("run", "First."), defined("walk"))
        await peer.register("told", defined("run", "Second."), defined("walk"))
        await peer.register("told", defined("walk"))
        await peer.register("told", defined("run", "Third."), defined("walk"))
    actions = {}
    for tool in ("run", "walk"):
        history = (await admin.get(f"/tools/told.{tool}/history")).json()["items"]
        actions[tool] = [one["action"] for one in history]
    assert actions == {"run": ["added", "removed", "changed"], "walk": ["imported"]}

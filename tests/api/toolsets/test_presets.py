"""Preset arguments: who sees their values, and what becomes of those whose input does not exist."""

import orjson
import pytest
from aiohttp import web
from sqlalchemy import text

from app.calls import execute
from app.calls.log.bodies import BodyRecorder
from app.calls.request import CallRequest
from app.catalog.feed import record_change
from app.core.errors import InvalidArguments
from app.security.principal import Principal
from app.storage.models import TENANT
from tests.harness.beside import web_server

PLAIN, SECRET = "canary-branch-7c41", "canary-secret-9b2e"
INPUTS = {
    "type": "object",
    "properties": {
        "q": {"type": "string"},
        "branch": {"type": "string"},
        "code": {"type": "string", "format": "password"},
    },
    "required": ["q", "branch"],
    "additionalProperties": False,
}
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
EVERYBODY = Principal(key_id="k", name="n", tenant_id=TENANT, scopes=frozenset({"tools:call"}))
CALL = "/toolsets/desk/tools/library_books/call"


@pytest.fixture
async def upstream():
    """An upstream that repeats the secret that it gets in each response, also in errors and events."""

    async def respond(request):
        code, q = request.query.get("code", ""), request.query["q"]
        if q == "events":
            events = b"data: " + orjson.dumps({"code": code}) + b"\n\n"
            return web.Response(body=events, content_type="text/event-stream")
        body = {"code": code, "detail": f"not {code}", "errors": [{"pointer": "/code", "detail": code}]}
        return web.json_response(body, status=int(q) if q.isdigit() else 200, headers={"X-Echo": code})

    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", respond)
    async with web_server(application) as url:
        yield url


@pytest.fixture
async def admin(api, upstream):
    provider = await api.provider("library")
    await api.tool(provider, "books", {"url": f"{upstream}/books"}, inputs=INPUTS)
    client = await api.client("admin")
    presets = {"branch": PLAIN, "code": SECRET}
    definition = {"providers": ["library"], "changes": {"library.books": {"presets": presets}}}
    made = await client.put("/toolsets/desk", json={"definition": definition})
    assert made.status_code == 201, made.text
    return client


def model_call(arguments):
    function = {"name": "library_books", "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


async def test_no_response_to_the_agent_has_the_presets(api, admin):
    agent = await api.client("tools:read", "tools:call", "calls:read")
    called = await agent.post(CALL, json={"q": "a"})
    assert (called.status_code, called.json()["code"]) == (200, "***")
    seen = [
        called,
        await agent.post(CALL, json={"q": "422"}),
        await agent.post(CALL, json={"q": "500"}),
        await agent.post(CALL, json={"q": 5}),
        await agent.post(CALL, json={"q": "a", "code": "x", "branch": "y", "cod": "z"}),
        await agent.post(CALL, json={"q": "events"}, headers={"Accept": "text/event-stream"}),
        await agent.post(f"{CALL}?dry_run=true", json={"q": "a"}),
        await agent.get("/explain", params={"tool": "library_books", "toolset": "desk"}),
    ]
    rests = ("", "/desk", "/desk/utcp", "/desk/search", "/desk/export", "/desk/search?format=mcp")
    seen += [await agent.get(f"/toolsets{rest}") for rest in rests]
    for arguments in ('{"q": "a"}', '{"q": "422"}', '{"q": "events"}', '{"q": 5}', "{"):
        for path in ("/toolsets/desk/tool-calls", "/toolsets/desk/tool-calls?stream=true"):
            seen.append(await agent.post(path, json=model_call(arguments)))
    for arguments in ({"q": "a"}, {"q": "422"}, {"q": "events"}, {"q": 5}):
        params = {"name": "library_books", "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        seen.append(await agent.post("/toolsets/desk/mcp", json=body, headers=MCP))
    await api.services.call_log.flush()
    seen += [await agent.get("/calls"), await agent.get("/calls.csv")]
    for response in seen:
        shown = response.text + str(response.headers)
        assert SECRET not in shown, response.request.url
        assert PLAIN not in shown, response.request.url


@pytest.fixture
def recorded_bodies(api):
    api.services.calls.bodies = BodyRecorder(api.services.vault, policy="all", max_bytes=1_000)
    yield
    api.services.calls.bodies = None


@pytest.mark.parametrize("approved", [False, True], ids=["call", "approved"])
async def test_recorded_arguments_are_those_of_the_client(api, admin, recorded_bodies, approved):
    agent = await api.client("tools:call", "approvals:decide")
    if approved:
        await admin.patch("/tools/library.books", json={"requires_approval": True})
    made = await agent.post(CALL, json={"q": "a"})
    call_id = made.headers["x-call-id"]
    if approved:
        decided = (await admin.post(f"{made.headers['location']}/approve")).json()
        assert decided["state"] == "executed"
        call_id = decided["result"]["call_id"] if "result" in decided else decided["call_id"]
    await api.services.call_log.flush()
    reader = await api.client("calls:bodies")
    shown = (await reader.get(f"/calls/{call_id}/bodies")).json()
    assert orjson.loads(shown["arguments"]["text"]) == {"q": "a"}
    assert shown.get("presets") is None
    assert SECRET not in str(shown)
    assert PLAIN not in str(shown)
    restricted = await api.client("calls:bodies", "providers:read", providers=["library"])
    assert PLAIN not in (await restricted.get(f"/calls/{call_id}/bodies")).text
    known = (await admin.get(f"/calls/{call_id}/bodies")).json()
    assert orjson.loads(known["arguments"]["text"]) == {"q": "a"}
    assert orjson.loads(known["presets"]["text"]) == {"/branch": PLAIN, "/code": SECRET}


async def test_presets_of_inputs_that_do_not_exist_are_rejected(api, admin):
    presets = {"branch": "a", "brunch": "b", "/nested/x": 1}
    changes = {"library.books": {"presets": presets}, "not.there": {"presets": {"x": 1}}}
    body = {"definition": {"providers": ["library"], "changes": changes}}
    for response in (
        await admin.put("/toolsets/desk", json=body),
        await admin.post("/toolsets", json=body | {"name": "other"}),
    ):
        assert response.status_code == 422
        assert [error["pointer"] for error in response.json()["errors"]] == [
            "/definition/changes/library.books/presets/brunch",
            "/definition/changes/library.books/presets/~1nested~1x",
        ]


async def without_input(api, name: str) -> None:
    """Store the tool anew without an input, as a refresh does."""
    properties = {one: schema for one, schema in INPUTS["properties"].items() if one != name}
    inputs = orjson.dumps(INPUTS | {"properties": properties}).decode()
    async with api.services.database.transaction() as session:
        statement = text(
            "UPDATE tools SET inputs = cast(:inputs as jsonb), version = version + 1"
            " WHERE name = 'library.books' RETURNING id, provider_id"
        )
        row = (await session.execute(statement, {"inputs": inputs})).one()
        await record_change(session, kind="tool", provider_id=row.provider_id, object_id=str(row.id))
    await api.services.feed.catch_up()


async def test_tool_that_lost_the_input_of_a_preset_is_left_out_until_the_preset_is_changed(api, admin):
    await without_input(api, "code")
    shown = (await admin.get("/toolsets/desk")).json()
    assert [(one["kind"], one["name"]) for one in shown["problems"]] == [("preset", "library.books/code")]
    agent = await api.client()
    assert (await agent.post(CALL, json={"q": "a"})).status_code == 404
    assert (await agent.get("/toolsets/desk/utcp")).json()["tools"] == []
    changes = {"library.books": {"presets": {"branch": PLAIN}}}
    definition = {"providers": ["library"], "changes": changes}
    changed = await admin.put("/toolsets/desk", json={"definition": definition})
    assert changed.status_code == 200, changed.text
    assert (await agent.post(CALL, json={"q": "a"})).status_code == 200


async def test_call_whose_preset_has_no_input_any_more_is_not_sent(api, admin):
    """A worker may know the tool anew before it knows the toolset anew."""
    await without_input(api, "code")
    request = CallRequest(
        EVERYBODY,
        "library.books",
        route="",
        presets={"/branch": PLAIN, "/code": SECRET},
        arguments={"q": "a"},
    )
    outcome = await execute(request, api.services.calls)
    assert isinstance(outcome.error, InvalidArguments)
    [error] = outcome.error.errors
    assert error.pointer == "/code"
    assert "the tool does not have any more" in error.detail

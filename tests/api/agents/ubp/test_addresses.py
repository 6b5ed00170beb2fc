"""`/ubp` at a gateway with `ROOT_PATH` and `ALLOWED_HOSTS`."""

import json

import pytest
import websockets

pytestmark = pytest.mark.filterwarnings("ignore:The `root_path` parameter is deprecated")


@pytest.fixture(scope="module")
async def application(applications):
    return await applications.get(
        root_path="/gateway",
        allowed_hosts=("tools.example", "*.inside.example"),
    )


async def connect(application, host):
    client = await application.client("tools:call")
    headers = {"Authorization": client.headers["authorization"]}
    port = int(application.url.rpartition(":")[2])
    # As a proxy forwards it: without the root path, and with the host that the client has named.
    return await websockets.connect(
        f"ws://{host}/ubp", additional_headers=headers, proxy=None, host="127.0.0.1", port=port
    )


@pytest.mark.parametrize("host", ["tools.example", "a.inside.example:8443"])
async def test_a_websocket_below_a_root_path_is_served_for_an_allowed_host(application, host):
    async with await connect(application, host) as socket:
        await socket.send(json.dumps({"messageId": "m", "commandRequest": {"commandName": "agent.ping"}}))
        assert json.loads(await socket.recv())["commandResponse"]["status"] == "SUCCESS"


async def test_a_websocket_for_another_host_is_denied_with_a_problem(application):
    with pytest.raises(websockets.InvalidStatus) as rejected:
        await connect(application, "rebound.example")
    response = rejected.value.response
    assert (response.status_code, response.headers["content-type"]) == (400, "application/problem+json")
    assert json.loads(response.body)["detail"] == "The Host header names no host that is served here."


async def test_a_request_without_upgrade_below_a_root_path_is_told_to_upgrade(application):
    client = await application.client("executors:connect")
    response = await client.get("/ubp", headers={"Host": "tools.example"})
    assert (response.status_code, response.headers["upgrade"]) == (426, "websocket")


async def test_commands_are_executed_below_a_root_path(application):
    client = await application.client("tools:call")
    body = {"commandName": "agent.ping"}
    response = await client.post("/ubp/commands", json=body, headers={"Host": "tools.example"})
    assert response.json()["status"] == "SUCCESS"


async def test_a_command_is_not_cancelled_without_its_connection(application):
    client = await application.client("tools:call")
    body = {"commandName": "command.cancel", "arguments": {"command_id": "c"}}
    response = (await client.post("/ubp/commands", json=body, headers={"Host": "tools.example"})).json()
    assert response["status"] == "INVALID_ARGUMENT"
    assert response["error"].endswith("connect by gRPC or WebSocket.")
    assert response["result"]["value"]["documentation_url"].startswith("http")

"""The six steps of UBP's chapter on tool calling, over WebSocket, on one gateway and on two replicas."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
import websockets

from tests.harness.gateway import serve

pytestmark = pytest.mark.slow

DEFINITION = {
    "name": "get_order_status",
    "description": "Return the status of an order.",
    "parameters": [
        {"name": "order_id", "type": "integer", "description": "The number of the order.", "required": True}
    ],
}


class Connection:
    """One end of `/ubp`, in JSON."""

    def __init__(self, socket):
        self.socket = socket
        self.number = 0

    async def send(self, payload, **metadata):
        self.number += 1
        message_id = f"m{self.number}"
        await self.socket.send(json.dumps({"messageId": message_id, **payload, "metadata": metadata}))
        return message_id

    async def request(self, name, arguments, command_id="", **metadata):
        request = {"commandId": command_id, "commandName": name, "arguments": arguments, "metadata": metadata}
        await self.send({"commandRequest": request})
        return await self.received("commandResponse")

    async def received(self, kind):
        message = json.loads(await asyncio.wait_for(self.socket.recv(), 10))
        assert kind in message, message
        return message


@asynccontextmanager
async def connected(gateway, key=None):
    url = gateway.url.replace("http", "ws", 1) + "/ubp"
    headers = {"Authorization": f"Bearer {key or gateway.key}"}
    async with websockets.connect(url, additional_headers=headers) as socket:
        yield Connection(socket)


async def run_orders(executor):
    """Execute commands of one executor: the status of order 123 is Shipped."""
    while True:
        message = json.loads(await executor.socket.recv())
        request = message.get("commandRequest")
        if request is None:
            continue
        status = "Shipped" if request["arguments"].get("order_id", request["arguments"].get("value")) else "?"
        response = {
            "commandId": request["commandId"],
            "status": "SUCCESS",
            "result": {"@type": "type.googleapis.com/google.protobuf.Value", "value": status},
        }
        await executor.send({"commandResponse": response}, reply_to=message["messageId"])


def call_by_rest(gateway):
    with gateway.client() as client:
        called = client.post("/tools/orders.get_order_status/call", json={"order_id": 123})
        return called.status_code, called.json()


def first_found(gateway):
    with gateway.client() as client:
        return client.get("/tools/search", params={"q": "status of an order"}).json()["items"][0]["name"]


@pytest.fixture(scope="module")
def gateway(servers, tmp_path_factory):
    with serve(servers, tmp_path_factory.mktemp("gateway")) as running:
        yield running


async def test_the_order_example(gateway):
    async with connected(gateway) as executor, connected(gateway) as agent:
        answer = await executor.request(
            "agent.register_tools",
            {"tools": [DEFINITION]},
            role="executor",
            executor="orders",
            reply_to="true",
        )
        assert answer["commandResponse"]["status"] == "SUCCESS", answer
        running = asyncio.create_task(run_orders(executor))
        declared = await agent.request("agent.register_tools", {"tools": [DEFINITION]}, role="reasoner")
        assert declared["commandResponse"]["result"]["value"]["tools"] == [
            {"name": "get_order_status", "status": "known", "tool": "orders.get_order_status"}
        ]
        answer = await agent.request("get_order_status", {"order_id": 123}, "c-1")
        response = answer["commandResponse"]
        assert (response["commandId"], response["status"], response["result"]["value"]) == (
            "c-1",
            "SUCCESS",
            "Shipped",
        )
        called = await asyncio.to_thread(call_by_rest, gateway)
        assert called == (200, "Shipped")
        assert await asyncio.to_thread(first_found, gateway) == "orders.get_order_status"
        running.cancel()

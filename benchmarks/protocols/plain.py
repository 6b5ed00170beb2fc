"""`python -m benchmarks.protocols.plain`: calls of one protocol with a plain library for it.

Reads a line of JSON `{protocol, template, arguments, calls, warm_up, connections}`, and prints the CPU
microseconds of one call in this process, those of its children included.
"""

import asyncio
import itertools
import json
import os
import shlex
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import aiohttp
import grpc.aio
import uvloop
from aiortc import RTCPeerConnection, RTCSessionDescription
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from mcp.client.client import Client
from websockets.asyncio.client import connect

from tests.protocols.kits.grpc import contract_file, pool_with

Call = Callable[[], Awaitable[Any]]
Json = dict[str, Any]


@asynccontextmanager
async def over_http(template: Json, arguments: Json) -> AsyncIterator[Call]:
    """aiohttp: http, sse and streamable_http."""
    async with aiohttp.ClientSession() as session:

        async def call() -> Any:
            async with session.post(template["url"], json=arguments["body"]) as response:
                return await response.read()

        yield call


@asynccontextmanager
async def tcp(template: Json, arguments: Json) -> AsyncIterator[Call]:
    """asyncio: a connection for each call, as the protocol prescribes."""
    message = _text(template["request_data_template"], arguments)

    async def call() -> Any:
        reader, writer = await asyncio.open_connection(template["host"], template["port"])
        writer.write(len(message).to_bytes(4, "big") + message)
        size = int.from_bytes(await reader.readexactly(4), "big")
        found = await reader.readexactly(size)
        writer.close()
        return found

    yield call


class _Reply(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: Any) -> None:  # noqa: ARG002 - asyncio's.
        if not self.reply.done():
            self.reply.set_result(data)


@asynccontextmanager
async def udp(template: Json, arguments: Json) -> AsyncIterator[Call]:
    """asyncio: a socket for each call."""
    message = _text(template["request_data_template"], arguments)
    address = (template["host"], template["port"])

    async def call() -> Any:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_datagram_endpoint(_Reply, remote_addr=address)
        transport.sendto(message)
        found = await protocol.reply
        transport.close()
        return found

    yield call


@asynccontextmanager
async def websocket(template: Json, arguments: Json) -> AsyncIterator[Call]:
    """websockets: a connection for each call."""
    message = json.dumps({"key": "", "arguments": arguments})

    async def call() -> Any:
        async with connect(template["url"], compression=None, proxy=None) as connection:
            await connection.send(message)
            return await connection.recv()

    yield call


@asynccontextmanager
async def graphql(template: Json, arguments: Json) -> AsyncIterator[Call]:
    """aiohttp, with GraphQL as plain JSON."""
    body = {"query": template["query"], "variables": arguments}
    async with aiohttp.ClientSession() as session:

        async def call() -> Any:
            async with session.post(template["url"], json=body) as response:
                return await response.json()

        yield call


@asynccontextmanager
async def over_grpc(template: Json, arguments: Json) -> AsyncIterator[Call]:
    """grpcio, with messages from JSON and to JSON."""
    kind = GetMessageClass(pool_with(contract_file()).FindMessageTypeByName("contract.v1.Word"))
    async with grpc.aio.insecure_channel(f"{template['host']}:{template['port']}") as channel:
        method = channel.unary_unary(
            f"/{template['service_name']}/{template['method_name']}",
            request_serializer=kind.SerializeToString,
            response_deserializer=kind.FromString,
        )

        async def call() -> Any:
            return MessageToDict(await method(ParseDict(arguments, kind())))

        yield call


@asynccontextmanager
async def mcp(template: Json, arguments: Json) -> AsyncIterator[Call]:
    """The SDK: one session for all calls."""
    ((_, server),) = template["config"]["mcpServers"].items()
    async with Client(server["url"]) as client:

        async def call() -> Any:
            return await client.call_tool(template["tool_name"], arguments)

        yield call


@asynccontextmanager
async def webrtc(template: Json, arguments: Json) -> AsyncIterator[Call]:
    """aiortc: one channel for all calls."""
    connection = RTCPeerConnection()
    channel = connection.createDataChannel("tools")
    opened = asyncio.Event()
    waiting: dict[str, asyncio.Future[Any]] = {}
    channel.on("open", opened.set)
    channel.on("message", lambda text: waiting.pop(json.loads(text)["id"]).set_result(text))
    await connection.setLocalDescription(await connection.createOffer())
    peer = f"{template['signaling_server']}/{quote(template['peer_id'])}"
    async with aiohttp.ClientSession() as session:
        offer, headers = connection.localDescription.sdp, {"Content-Type": "application/sdp"}
        async with session.post(peer, data=offer, headers=headers) as response:
            sdp = await response.text()
    await connection.setRemoteDescription(RTCSessionDescription(sdp, "answer"))
    await opened.wait()
    numbers = itertools.count()

    async def call() -> Any:
        number = str(next(numbers))
        waiting[number] = asyncio.get_running_loop().create_future()
        request = {"id": number, "type": "call", "tool": template["tool_name"], "arguments": arguments}
        channel.send(json.dumps(request))
        return await waiting[number]

    yield call
    await connection.close()


@asynccontextmanager
async def cli(template: Json, arguments: Json) -> AsyncIterator[Call]:
    """asyncio: a process for each call."""
    words = shlex.split(template["commands"][0]["command"])[:-1]

    async def call() -> Any:
        child = await asyncio.create_subprocess_exec(
            *words, json.dumps(arguments["body"]), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env={}
        )
        return (await child.communicate())[0]

    yield call


def _text(template: str, arguments: Json) -> bytes:
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value)
        template = template.replace(f"UTCP_ARG_{name}_UTCP_ARG", text)
    return template.encode()


WAYS: dict[str, Callable[[Json, Json], Any]] = {
    "http": over_http, "sse": over_http, "streamable_http": over_http, "tcp": tcp, "udp": udp,
    "websocket": websocket, "graphql": graphql, "grpc": over_grpc, "cli": cli, "mcp": mcp, "webrtc": webrtc,
}  # fmt: skip
"""Libraries by protocol: `text` and `file` need none."""


async def main(order: Json) -> float:
    """The CPU microseconds of a call."""
    async with WAYS[order["protocol"]](order["template"], order["arguments"]) as call:
        await _calls(call, order["warm_up"], order["connections"])
        before = _used()
        await _calls(call, order["calls"], order["connections"])
        return (_used() - before) / int(order["calls"]) * 1e6


async def _calls(call: Call, number: int, connections: int) -> None:
    left = iter(range(number))

    async def some() -> None:
        for _ in left:
            await call()

    await asyncio.gather(*(some() for _ in range(connections)))


def _used() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    print(uvloop.run(main(json.loads(sys.stdin.readline()))))

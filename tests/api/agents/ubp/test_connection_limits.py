"""How many connections of UBP an address may have, and what becomes of those whose peer does not read."""

import asyncio
import contextlib
import json
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest
import websockets

from app.formats.ubp.v1 import core_pb2
from tests.protocols.kits.base import free_port

PER_ADDRESS = 3
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


@pytest.fixture(scope="module")
async def application(applications):
    running = await applications.get(
        max_connections_per_address=PER_ADDRESS,
        client_idle_timeout=1,
        keep_alive_timeout=1,
        head_timeout=1,
        ubp_grpc_port=free_port(),
    )
    running.key = (await running.client("tools:call")).headers["authorization"]
    return running


def grpc_address(application):
    return f"127.0.0.1:{application.services.settings.ubp_grpc_port}"


@asynccontextmanager
async def channel(application, *options):
    """A connection of its own."""
    own = ("grpc.use_local_subchannel_pool", 1)
    async with grpc.aio.insecure_channel(grpc_address(application), [own, *options]) as opened:
        yield opened


def stream(application, opened, address=None):
    """Open a stream, with the address of a client as a proxy at 127.0.0.1 forwards it."""
    metadata = [("authorization", application.key)]
    if address is not None:
        metadata.append(("x-forwarded-for", address))
    return opened.stream_stream("/ubp.v1.Orchestrator/Connect")(metadata=metadata)


def ping(command_id=""):
    message = core_pb2.UbpMessage(message_id="m")
    message.command_request.command_id, message.command_request.command_name = command_id, "agent.ping"
    return message.SerializeToString()


async def is_open(call):
    """Whether a stream is admitted; a rejected one has too many of its address."""
    try:
        await call.write(ping())
        return await call.read() is not grpc.aio.EOF
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        pass
    return False


@pytest.mark.parametrize("address", [None, "203.0.113.7"], ids=["direct", "forwarded"])
async def test_an_address_has_at_most_so_many_streams(application, address):
    async with channel(application) as opened:
        calls = [stream(application, opened, address) for _ in range(PER_ADDRESS)]
        assert [await is_open(call) for call in calls] == [True] * PER_ADDRESS
        rejected = stream(application, opened, address)
        assert await rejected.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await rejected.details() == "Too many streams of one address."
        # Another address is not affected, and the end of one stream makes room for another.
        assert await is_open(stream(application, opened, "203.0.113.8"))
        await calls[0].done_writing()
        assert await calls[0].code() is grpc.StatusCode.OK
        while not await is_open(stream(application, opened, address)):
            pass


@asynccontextmanager
async def websocket(application, address):
    url = application.url.replace("http", "ws", 1) + "/ubp"
    headers = {"Authorization": application.key, "X-Forwarded-For": address}
    async with websockets.connect(url, additional_headers=headers, proxy=None) as socket:
        await socket.send(json.dumps({"messageId": "m", "commandRequest": {"commandName": "agent.ping"}}))
        assert json.loads(await socket.recv())["commandResponse"]["status"] == "SUCCESS"
        yield socket


async def test_an_address_has_at_most_so_many_websockets(application):
    mine = "203.0.113.9"
    async with websocket(application, mine), websocket(application, mine):
        async with websocket(application, mine):
            with pytest.raises(websockets.InvalidStatus) as rejected:
                async with websocket(application, mine):
                    pass
            assert rejected.value.response.status_code == 429
            async with websocket(application, "203.0.113.10"):
                pass
        async with websocket(application, mine):
            pass


async def test_a_peer_of_grpc_that_does_not_read_is_disconnected_and_others_are_served(application):
    async with channel(application) as slow, channel(application) as other:
        mine = "203.0.113.11"
        stalled = stream(application, slow, mine)
        served = [stream(application, other, mine) for _ in range(PER_ADDRESS - 1)]
        assert await is_open(stalled)
        # Responses have the command's id: together more than the connection takes without its peer reading.
        for number in range(8):
            await stalled.write(ping(f"{number}" * (2 << 20)))
        # An address may have so many streams: another one is admitted when the first has ended.
        while not await is_open(stream(application, other, mine)):
            assert [await is_open(call) for call in served] == [True] * len(served)
        with contextlib.suppress(grpc.aio.AioRpcError):
            while await stalled.read() is not grpc.aio.EOF:
                pass
        # Its connection may have been closed as one without a stream before it has read the status.
        assert await stalled.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)


@pytest.mark.parametrize("sent", [b"", PREFACE], ids=["no bytes", "no stream"])
async def test_a_connection_without_a_stream_is_closed(application, sent):
    host, port = grpc_address(application).split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    # With the settings and the GOAWAY of HTTP/2 before the end.
    await reader.read()
    writer.close()

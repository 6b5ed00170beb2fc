"""Generated frames at both transports: a connection goes on, or ends as docs/ubp.md says; nothing is unexpected.

A frame is followed by `agent.ping`, whose response shows that the connection goes on.
"""

import asyncio
import json
from queue import SimpleQueue

import grpc
import pytest
import websockets
from hypothesis import given

from app.formats.ubp.v1 import core_pb2
from tests.harness.examples import examples
from tests.harness.gateway import serve
from tests.harness.ubp_fuzz import binary_frames, json_frames
from tests.protocols.kits.base import free_port

END = "the end of an example"
CLOSE_CODES = {1007, 1008}


def ping():
    message = core_pb2.UbpMessage(message_id=END)
    message.command_request.command_name = "agent.ping"
    return message.SerializeToString()


class WebSocketPeer:
    """A connection that is opened again when a frame has ended it."""

    def __init__(self, gateway, port):
        self._url = gateway.url.replace("http", "ws", 1) + "/ubp"
        self._headers = {"Authorization": f"Bearer {gateway.key}"}
        self._socket = None
        self._received = []

    async def exchange(self, frame):
        """Send a frame, and return what arrives until the next ping is responded to, or the connection ends."""
        if self._socket is None:
            self._socket = await websockets.connect(
                self._url, additional_headers=self._headers, proxy=None, max_queue=None
            )
        received, closed = [], None
        try:
            await self._socket.send(frame)
            await self._socket.send(ping())
            while not received or received[-1].metadata.get("reply_to") != END:
                data = await self._socket.recv()
                # Responses have the form of the last frame: the ping's, once it was read.
                if isinstance(data, bytes):
                    received.append(core_pb2.UbpMessage.FromString(data))
                else:
                    assert "urn:utcp-gateway:problem:internal-error" not in data
        except websockets.ConnectionClosed as error:
            self._socket, closed = None, error.rcvd or websockets.frames.Close(1006, "")
        if closed is not None:
            assert closed.code in CLOSE_CODES, (frame, closed)
            assert closed.reason, frame
        return received

    async def aclose(self):
        if self._socket is not None:
            await self._socket.close()


class GrpcPeer:
    """A stream that is opened again when a message has ended it.

    A client of grpc.aio that writes to a stream that has just ended reports an error of its own in place of
    the status that the gateway has sent.
    """

    def __init__(self, gateway, port):
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._metadata = (("authorization", f"Bearer {gateway.key}"),)
        self._call = None

    async def exchange(self, frame):
        return await asyncio.to_thread(self._exchange, frame)

    def _exchange(self, frame):
        if self._call is None:
            self._requests = SimpleQueue()
            connect = self._channel.stream_stream("/ubp.v1.Orchestrator/Connect")
            self._call = connect(iter(self._requests.get, None), metadata=self._metadata)
        received = []
        self._requests.put(frame)
        self._requests.put(ping())
        try:
            for data in self._call:
                received.append(core_pb2.UbpMessage.FromString(data))
                if received[-1].metadata.get("reply_to") == END:
                    return received
        except grpc.RpcError:
            pass
        call, self._call = self._call, None
        self._requests.put(None)
        assert call.code() is grpc.StatusCode.INVALID_ARGUMENT, (frame, call.details())
        assert call.details(), frame
        return received

    async def aclose(self):
        if self._call is not None:
            self._requests.put(None)
        await asyncio.to_thread(self._channel.close)


@pytest.fixture(scope="module")
def gateway(servers, tmp_path_factory):
    port = free_port()
    with serve(servers, tmp_path_factory.mktemp("fuzzed"), UBP_GRPC_PORT=str(port)) as running:
        yield running, port


@pytest.fixture
def exchange(gateway, request):
    """A function that exchanges a frame on one connection of a transport; then nothing unexpected is logged."""
    running, port = gateway
    with asyncio.Runner() as runner:
        peer = request.param(running, port)
        try:
            yield lambda frame: runner.run(peer.exchange(frame))
        finally:
            runner.run(peer.aclose())
    lines = [json.loads(line) for line in running.log.read_text().splitlines() if line.startswith("{")]
    assert [line for line in lines if line["level"] in ("error", "critical")] == []


def check(received):
    for message in received:
        assert b"problem:internal-error" not in message.SerializeToString(), message


@pytest.mark.parametrize("exchange", [WebSocketPeer], indirect=True)
def test_text_frames(exchange):
    @examples(120)
    @given(json_frames())
    def run(frame):
        check(exchange(frame))

    run()


@pytest.mark.parametrize("exchange", [WebSocketPeer, GrpcPeer], indirect=True)
def test_binary_frames(exchange):
    @examples(80)
    @given(binary_frames())
    def run(frame):
        check(exchange(frame))

    run()

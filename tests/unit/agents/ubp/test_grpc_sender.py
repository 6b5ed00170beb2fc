"""Messages on a stream of gRPC: which of them have certainly not been sent, and those of a cancelled sender."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest

from app.agents.ubp.grpc_server import GrpcSender
from app.formats.ubp import wire
from app.formats.ubp.model import STRUCT, Command, Message, WirePayload
from app.protocols.command_routing import MessageNotSent

LARGE = 256 << 10
"""The size of a message in bytes."""
NUMBER = 64
"""More messages than flow control lets through while the peer does not read."""


def message(number):
    return Message(f"m{number}", Command(f"c{number}", "store", WirePayload(STRUCT, bytes(LARGE))))


class Service:
    """Gives the sender of its only stream to the test, and serves the stream until `end`."""

    def __init__(self, seconds):
        self.end = asyncio.Event()
        self.sender = asyncio.get_running_loop().create_future()
        self._seconds = seconds

    async def connect(self, _requests, context):
        self.sender.set_result(GrpcSender(context, seconds=self._seconds))
        await self.end.wait()


@asynccontextmanager
async def stream(*, seconds):
    """Yield a service, its sender, and the client's end of the stream, which reads nothing by itself."""
    service = Service(seconds)
    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(service.connect)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", {"Connect": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream("/test/Connect")()
        try:
            yield service, await service.sender, call
        finally:
            service.end.set()
            call.cancel()
            await server.stop(0)


def send_all(sender):
    """Return the tasks that send more messages than the peer takes."""
    return [asyncio.create_task(sender.send(message(number))) for number in range(NUMBER)]


async def test_a_message_that_the_peer_does_not_take_may_have_been_sent_and_later_ones_have_not():
    async with stream(seconds=0.5) as (_, sender, _):
        results = await asyncio.gather(*send_all(sender), return_exceptions=True)
        sent = results.index(next(result for result in results if result is not None))
        assert type(results[sent]) is ConnectionResetError
        assert {type(result) for result in results[sent + 1 :]} == {MessageNotSent}
        assert sender.failed.is_set()


async def test_a_message_after_the_end_of_the_stream_has_not_been_sent():
    async with stream(seconds=60) as (service, sender, call):
        service.end.set()
        assert await call.code() is grpc.StatusCode.OK
        with pytest.raises(MessageNotSent):
            await sender.send(message("late"))


async def test_a_sender_that_is_cancelled_disturbs_no_other():
    async with stream(seconds=60) as (_, sender, call):
        tasks = send_all(sender)
        # Until the peer takes no more. Were it too short, less would be cancelled.
        await asyncio.wait(tasks, timeout=0.3)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert tasks[-1].cancelled()
        following = asyncio.create_task(sender.send(message("following")))
        received = []
        while "mfollowing" not in received:
            received.append(wire.decode_message(await call.read()).message_id)
        await following
        assert received == [*(f"m{number}" for number in range(len(received) - 1)), "mfollowing"]

"""MCP over the standard input and output of a program: a message a line (MCP, Transports, stdio)."""

import contextlib
from collections.abc import AsyncIterator

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from app.errors import GatewayError, ResponseTooLarge, UpstreamUnreachable
from app.protocols.mcp.pending_request import CURRENT, PendingRequest
from app.protocols.shared.programs import ProgramCommand, ProgramRules, RunningProgram, start_program

Streams = tuple[
    "anyio.abc.ObjectReceiveStream[SessionMessage | Exception]", "anyio.abc.ObjectSendStream[SessionMessage]"
]


@contextlib.asynccontextmanager
async def program_streams(
    order: ProgramCommand, rules: ProgramRules, *, longest: int, opening: PendingRequest
) -> AsyncIterator[Streams]:
    """The streams of a running server, which is killed at the end. A line has at most `longest` bytes.

    Why the server ended is told to the attempt that opens the session, or to nobody.
    """
    heard, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, said = anyio.create_memory_object_stream[SessionMessage](0)
    running = await start_program(order, rules)

    async def listen() -> None:
        async with heard:
            try:
                async for line in _lines(running, longest):
                    message = _message(line)
                    if message is not None:
                        await heard.send(message)
            except GatewayError as error:
                opening.fail(error)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            if running.ended.is_set() and running.failure is not None:
                detail = f"The MCP server could not be started: {running.failure}."
                opening.fail(UpstreamUnreachable(detail, request_sent=False))
        running.kill()

    async def speak() -> None:
        try:
            async with said:
                async for message in said:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await running.write(text.encode() + b"\n")
        except (BrokenPipeError, ConnectionError):
            running.kill()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            group.start_soon(speak)
            try:
                yield reading, writing
            finally:
                group.cancel_scope.cancel()
    finally:
        running.kill()
        for stream in (heard, reading, writing, said):
            stream.close()
        with anyio.CancelScope(shield=True):
            await running.ended.wait()


async def _lines(running: RunningProgram, longest: int) -> AsyncIterator[bytes]:
    line = bytearray()
    while piece := await running.read():
        *ended, rest = piece.split(b"\n")
        for part in ended:
            line += part
            yield bytes(line)
            line.clear()
        line += rest
        if len(line) > longest:
            raise ResponseTooLarge(f"One message of the MCP server has more than {longest} bytes.")
    await running.ended.wait()


def _message(line: bytes) -> SessionMessage | None:
    """None for what is no message: servers write greetings."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


__all__ = ["CURRENT", "program_streams"]

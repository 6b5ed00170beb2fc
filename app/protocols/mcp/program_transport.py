"""MCP over the standard input and output of a program: one message per line (MCP, Transports, stdio)."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from app.core.errors import (
    GatewayError,
    ResponseTooLarge,
    UpstreamError,
    UpstreamErrorResponse,
    UpstreamUnreachable,
)
from app.outbound.error_bodies import sanitize_error_body
from app.protocols.mcp.pending_request import CURRENT, PendingRequest
from app.protocols.shared.programs import ProgramCommand, ProgramRules, RunningProgram, start_program
from app.protocols.shared.programs.running import TAIL
from app.security.masking import Masker

Streams = tuple[
    "anyio.abc.ObjectReceiveStream[SessionMessage | Exception]", "anyio.abc.ObjectSendStream[SessionMessage]"
]


_MAX_SHOWN_BYTES: Final = 8 * 1024


@dataclass(eq=False)
class ServerProgram:
    """A server that is a program. `running` is set once it is started, `exit_code` if it ends by itself."""

    command: ProgramCommand
    rules: ProgramRules
    running: RunningProgram | None = None
    exit_code: int | None = None


async def with_program_output(
    error: GatewayError, program: ServerProgram | None, masker: Masker
) -> GatewayError:
    """Return an error with the exit code of the server's program and the end of its standard error, masked.

    The same error where the server is no program, or the error has a response already.
    """
    running = None if program is None else program.running
    if not isinstance(error, UpstreamError) or error.response is not None:
        return error
    if program is None or running is None or running.failure is not None:
        return error
    tail = await running.final_tail()
    text = sanitize_error_body(tail, "text/plain", masker=masker, limit=TAIL, complete=True) if tail else ""
    stderr = text[-_MAX_SHOWN_BYTES:] if isinstance(text, str) else text
    body = {"exit_code": program.exit_code, "stderr": stderr}
    response = UpstreamErrorResponse(
        status=500, body={key: value for key, value in body.items() if value is not None}
    )
    return type(error)(error.detail, response=response, request_sent=error.request_sent)


@contextlib.asynccontextmanager
async def program_streams(
    program: ServerProgram, *, max_line_bytes: int, opening: PendingRequest
) -> AsyncIterator[Streams]:
    """Yield the streams of a running server, which is killed at the end.

    A line of its output may have at most `max_line_bytes` bytes.

    The error of a server that ends is reported to `opening`, the attempt that opens the session.
    """
    received, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    running = program.running = await start_program(program.command, program.rules)

    async def receive() -> None:
        async with received:
            try:
                async for line in _lines(running, max_line_bytes):
                    message = _message(line)
                    if message is not None:
                        await received.send(message)
            except GatewayError as error:
                opening.fail(error)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            if running.ended.is_set() and running.failure is not None:
                detail = f"The MCP server could not be started: {running.failure}."
                opening.fail(UpstreamUnreachable(detail, request_sent=False))
            elif running.ended.is_set():
                code = program.exit_code = running.exit_code
                detail = f"The MCP server ended with exit code {code} before a session with it was open."
                opening.fail(UpstreamUnreachable(detail, request_sent=False))
        running.kill()

    async def send() -> None:
        try:
            async with sent:
                async for message in sent:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await running.write(text.encode() + b"\n")
        except (BrokenPipeError, ConnectionError):
            running.kill()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(receive)
            group.start_soon(send)
            try:
                yield reading, writing
            finally:
                group.cancel_scope.cancel()
    finally:
        running.kill()
        for stream in (received, reading, writing, sent):
            stream.close()
        with anyio.CancelScope(shield=True):
            await running.ended.wait()


async def _lines(running: RunningProgram, max_line_bytes: int) -> AsyncIterator[bytes]:
    line = bytearray()
    while piece := await running.read():
        *ended, rest = piece.split(b"\n")
        for part in ended:
            line += part
            yield bytes(line)
            line.clear()
        line += rest
        if len(line) > max_line_bytes:
            raise ResponseTooLarge(f"One message of the MCP server has more than {max_line_bytes} bytes.")
    await running.ended.wait()


def _message(line: bytes) -> SessionMessage | None:
    """Return the message on a line; None for other text, such as a greeting of the server."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


__all__ = ["CURRENT", "program_streams"]

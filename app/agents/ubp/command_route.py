"""`POST /ubp/commands`: one command as JSON, and its response, for senders that keep no connection.

A command of an executor is sent to it as it is. A request with an `Idempotency-Key` is executed once.
"""

from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.routing import Route

from app.access import authorise
from app.agents.http_messages import BytesResponse, read_body, read_head
from app.agents.ubp.reserved import ReservedCommands, is_reserved
from app.agents.ubp.results import error_result
from app.agents.ubp.server import ExecutorServer
from app.api.streams.connection import until_disconnected
from app.calls import ClientDisconnected
from app.calls.disconnect import DisconnectWatch
from app.calls.options import read_idempotency_key
from app.core.errors import InvalidInput
from app.formats.ubp.json_form import decode_command, result_json, write_json
from app.formats.ubp.model import Command, CommandResult
from app.security.principal import Principal

ROUTE: Final = "/ubp/commands"
_HEADERS: Final = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]


async def run_command(request: Request) -> BytesResponse:
    """Execute one command, a `CommandRequest` of UBP in JSON, and return its `CommandResponse`.

    The status is 200 whatever the command's own status is. Raise BadRequest and InvalidInput for a body that
    is no command.
    """
    principal = await authorise(request, "tools:call")
    server: ExecutorServer = request.scope["state"]["ubp"]
    services = server.services
    head = read_head(request.scope["headers"])
    limit = services.settings.max_request_bytes
    text = head.get(b"idempotency-key")
    key = None if text is None else read_idempotency_key(text)
    try:
        command = decode_command(await read_body(request, head, limit=limit, streams=services.streams))
        with DisconnectWatch(partial(until_disconnected, request.receive), services.calls.clock):
            result = await _execute(server, command, principal, key)
    except ClientDisconnected:
        return BytesResponse(b"", [], status_code=499)
    return BytesResponse(_text(command, result, services.settings.base_url), list(_HEADERS))


def _text(command: Command, result: CommandResult, base_url: str) -> bytes:
    try:
        return write_json(result_json(result))
    except InvalidInput as error:
        return write_json(result_json(error_result(command, error, base_url=base_url)))


run_command.scope = "tools:call"  # type: ignore[attr-defined]


async def _execute(
    server: ExecutorServer, command: Command, principal: Principal, idempotency_key: str | None
) -> CommandResult:
    try:
        if is_reserved(command.command_name):
            reserved = ReservedCommands(server.services, server.caller, None, None)
            return await reserved.execute(command, principal)
        return await server.caller.call(command, principal, route=ROUTE, idempotency_key=idempotency_key)
    except ClientDisconnected:
        raise
    except Exception as error:  # noqa: BLE001 - errors are statuses of the response.
        return error_result(command, error, base_url=server.services.settings.base_url)


COMMANDS_ROUTE: Final = Route(ROUTE, endpoint=run_command, methods=["POST"], name="runCommand")

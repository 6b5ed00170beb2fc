"""`/ubp`: messages of UBP over a WebSocket, as JSON in text frames or as protocol buffers in binary ones.

The gateway sends in the form of the last frame that it has received. The API key is in the headers of the
handshake, as on every route; it is verified again for each command. A peer that does not read is disconnected
once it has not answered a ping for 20 seconds.
"""

from collections.abc import Sequence
from typing import Final, NoReturn
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.access import authorise
from app.agents.ubp.lifetime import Ended, end_of, until_ended
from app.agents.ubp.server import ExecutorServer
from app.agents.ubp.session import Session
from app.core import exact_json
from app.core.errors import (
    BadRequest,
    Forbidden,
    GatewayError,
    InvalidInput,
    UpgradeRequired,
)
from app.formats.ubp import json_form, wire
from app.formats.ubp.model import Message
from app.protocols.command_routing import MessageNotSent
from app.security.principal import Principal

PATH: Final = "/ubp"
"""The path of the WebSocket."""
_GOING_AWAY: Final = 1001
_INVALID_DATA: Final = 1007
_POLICY_VIOLATION: Final = 1008
_REASON_BYTES: Final = 120
# Without a closing frame of the peer the code is another one.
_ENDS: Final = {1000: Ended.BY_PEER, 1001: Ended.BY_PEER, 1009: Ended.TOO_LARGE}


class _Sender:
    """Sends messages in the form that the peer uses."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self.is_binary = False

    async def send(self, message: Message) -> None:
        """See `MessageSender`."""
        try:
            if self.is_binary:
                await self._websocket.send_bytes(wire.encode_message(message))
            else:
                await self._websocket.send_text(json_form.encode_message(message).decode())
        except (WebSocketDisconnect, RuntimeError, OSError):
            # The server waits for the peer before it writes a frame, and all errors are raised before the
            # write. Starlette raises RuntimeError for what is sent after the closing frame.
            raise MessageNotSent from None


async def serve_websocket(websocket: WebSocket) -> None:
    """Serve one connection until its peer or the gateway ends it."""
    server: ExecutorServer = websocket.scope["state"]["ubp"]

    async def verify() -> Principal:
        return await authorise(websocket, "tools:call", "executors:connect")

    try:
        _check_origin(websocket, server.services.settings.cors_origins)
        await verify()
    except GatewayError as error:
        await websocket.send_denial_response(_denial(error))
        return
    await websocket.accept()
    sender = _Sender(websocket)
    address = "" if websocket.client is None else websocket.client.host
    session = Session(server, sender, verify=verify, transport="websocket", address=address)
    reason: Ended | GatewayError | None = None
    try:
        reason = await until_ended(server, session, verify, _receive(websocket, sender, session))
    finally:
        await session.aclose(end_of(server, reason))
    if reason is Ended.STOPPING:
        await _close(websocket, _GOING_AWAY)
    elif isinstance(reason, InvalidInput) or (
        isinstance(reason, GatewayError) and not isinstance(reason, BadRequest)
    ):
        await _close(websocket, _POLICY_VIOLATION, _reason(reason))
    elif isinstance(reason, BadRequest):
        await _close(websocket, _INVALID_DATA, _reason(reason))


async def require_upgrade(request: Request) -> NoReturn:
    """Reject a request without an upgrade to WebSocket (RFC 9110 section 15.5.22) by UpgradeRequired.

    Raise what `authorise` raises, as for the handshake of a WebSocket.
    """
    await authorise(request, "tools:call", "executors:connect")
    raise UpgradeRequired(
        "This resource is a WebSocket.", headers={"Upgrade": "websocket", "Connection": "Upgrade"}
    )


async def _receive(websocket: WebSocket, sender: _Sender, session: Session) -> Ended:
    """Give each message to the session until the peer disconnects; return why it has.

    Where its id cannot be read, raise BadRequest for a frame that cannot be parsed, and InvalidInput for any
    other malformed message.
    """
    while True:
        frame = await websocket.receive()
        if frame["type"] == "websocket.disconnect":
            return _ENDS.get(frame["code"], Ended.LOST)
        data = frame.get("bytes")
        sender.is_binary = data is not None
        content = frame["text"].encode() if data is None else data
        form = json_form if data is None else wire
        try:
            message = form.decode_message(content)
        except BadRequest as error:
            await session.receive_malformed(form.identify_message(content), error)
        else:
            await session.receive(message)


def _check_origin(websocket: WebSocket, allowed: Sequence[str]) -> None:
    """Raise Forbidden for a page of another origin that is not in CORS_ORIGINS (RFC 6455 section 10.2)."""
    origin = websocket.headers.get("origin")
    if origin is None or origin in allowed or "*" in allowed:
        return
    if urlsplit(origin).netloc.lower() != websocket.headers.get("host", "").lower():
        raise Forbidden("The origin of the page is not one of CORS_ORIGINS.")


def _reason(error: GatewayError) -> str:
    """Return what the closing frame says: the first error of a field with its pointer, or the detail."""
    if isinstance(error, InvalidInput) and error.errors:
        first = error.errors[0]
        return f"{first.pointer}: {first.detail}" if first.pointer else first.detail
    return error.problem_detail


async def _close(websocket: WebSocket, code: int, reason: str = "") -> None:
    try:
        await websocket.close(code, reason.encode()[:_REASON_BYTES].decode(errors="ignore"))
    except (RuntimeError, OSError):
        return


def _denial(error: GatewayError) -> Response:
    headers = dict(error.headers)
    if error.status == 401:
        headers.setdefault("WWW-Authenticate", "Bearer")
    return Response(exact_json.dumps(error.as_problem()), error.status, headers, "application/problem+json")


serve_websocket.scope = "tools:call"  # type: ignore[attr-defined]
serve_websocket.alternative_scopes = ("executors:connect",)  # type: ignore[attr-defined]
require_upgrade.scope = "tools:call"  # type: ignore[attr-defined]
require_upgrade.alternative_scopes = ("executors:connect",)  # type: ignore[attr-defined]

WEBSOCKET_ROUTE: Final = WebSocketRoute(PATH, serve_websocket, name="ubp")
WITHOUT_UPGRADE_ROUTE: Final = Route(PATH, require_upgrade, methods=["GET"], include_in_schema=False)

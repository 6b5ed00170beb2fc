"""Requests and responses of the plain routes: heads, bodies of JSON, and responses of bytes."""

from collections.abc import Mapping
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from app.api.streams.connection import MAX_PIECE, Headers
from app.calls import ClientDisconnected
from app.calls.response.streams import StreamRegistry
from app.core.deadlines import Deadline
from app.core.errors import ClientTimeout, TooLarge, UnsupportedMediaType
from app.core.media_types import is_json, parse_essence

_JSON: Final = b"application/json"


class BytesResponse:
    """An ASGI response with a complete body."""

    __slots__ = ("body", "headers", "status_code")

    def __init__(self, body: bytes, headers: Headers, *, status_code: int = 200) -> None:
        self.body = body
        self.headers = headers
        self.status_code = status_code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI.
        """Send the head and the body."""
        headers = [*self.headers, (b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


async def read_body(
    request: Request, head: Mapping[bytes, bytes], *, limit: int, streams: StreamRegistry
) -> bytes:
    """Return the request body of at most `limit` bytes. A missing content type counts as JSON.

    The call is in progress meanwhile, so the client has the same time for each 64 KiB as for reading a
    response. Raises ClientTimeout, ClientDisconnected, TooLarge and UnsupportedMediaType.
    """
    pieces: list[bytes] = []
    size = 0
    more = True
    receive = request.receive
    clock = streams.clock
    began = clock.loop.time()
    while more:
        try:
            if _has_arrived(receive):
                message = await receive()
            else:
                with Deadline(clock, began + streams.stall * (1 + size // MAX_PIECE)):
                    message = await receive()
        except TimeoutError:
            detail = "The client stopped sending its arguments."
            raise ClientTimeout(detail, headers={"Connection": "close"}) from None
        except ClientDisconnect:
            raise ClientDisconnected from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise TooLarge(f"The arguments may have at most {limit} bytes.", extra={"limit": limit})
        pieces.append(piece)
        more = message.get("more_body", False)
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if body and head.get(b"content-type", _JSON) != _JSON:
        media = parse_essence(head[b"content-type"].decode("latin-1"))
        if media and not is_json(media):
            raise UnsupportedMediaType("Send the arguments as application/json.")
    return body


def _has_arrived(receive: Receive) -> bool:
    """Return whether the whole body has arrived, as most have, so that `receive` does not wait.

    Only uvicorn's own `receive` tells: one that is wrapped, as for a body without a length, may wait.
    """
    return getattr(getattr(receive, "__self__", None), "more_body", True) is False


def read_head(headers: list[tuple[bytes, bytes]]) -> Mapping[bytes, bytes]:
    """Return a request's headers by name in lower case, repeated ones as one (RFC 9110 section 5.3)."""
    head = dict(headers)
    if len(head) < len(headers):
        head = {name: b", ".join(value for other, value in headers if other == name) for name in head}
    return head

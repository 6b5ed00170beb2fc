"""Signalling: exchange of an offer for the peer's answer, by HTTP as in WHIP (RFC 9725) or by WebSocket.

Over HTTP the offer is posted to `{signaling_server}/{peer_id}` as application/sdp; 200 or 201 brings the
answer, and its Location, if any, is deleted when the connection ends. Over WebSocket the messages are
`{"type": "offer", "to": peer, "from": ours, "sdp": ...}`, then `{"type": "answer", "from": peer, "to": ours,
"sdp": ...}` or `{"type": "error", "detail": ...}`.
"""

import asyncio
import re
import secrets
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

import orjson
from app.protocols.extension import (
    AdapterContext,
    Call,
    FieldError,
    GatewayError,
    Headers,
    HttpBasedAdapter,
    InvalidInput,
    PreparedRequest,
    Upgrade,
    UpstreamError,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamRejected,
    WebSocket,
    attach,
    exact_json,
    sanitize_error_body,
    sign_upgrade,
)

from utcp_gateway_webrtc.template import WebrtcTarget, WebrtcTemplate

_MAX_SDP_LENGTH: Final = 64 << 10
_MAX_MESSAGES: Final = 64
_DELETE_SECONDS: Final = 5.0
_SDP: Final = "application/sdp"
_PATH: Final = "/%:@!$&'()*+,;=~-._"
_DOTS: Final = re.compile(r"\.{1,2}")


def signalling_url(model: WebrtcTemplate) -> str:
    """Return the signalling server's URL for a peer; raise InvalidInput for a peer that no path can name."""
    parts = urlsplit(model.signaling_server.strip())
    if parts.scheme.lower() in ("ws", "wss"):
        return urlunsplit(parts._replace(path=quote(parts.path, safe=_PATH), fragment=""))
    if _DOTS.fullmatch(model.peer_id):
        field_error = FieldError("/peer_id", "It cannot be a segment of a path.")
        raise InvalidInput("The peer cannot be named in a URL.", errors=[field_error])
    path = f"{quote(parts.path.rstrip('/'), safe=_PATH)}/{quote(model.peer_id, safe='')}"
    return urlunsplit(parts._replace(path=path, fragment=""))


class Signalling(HttpBasedAdapter):
    """The client of signalling servers. Its errors have `request_sent` False: the call was not sent."""

    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._network = context.network

    async def exchange(
        self, offer: str, url: str, headers: Headers, call: Call[WebrtcTarget]
    ) -> tuple[str, str | None]:
        """Return the peer's answer, and the URL to delete at the end of the connection, if any.

        `offer` and the answer are session descriptions (RFC 8866). Raise what HTTP and WebSocket raise.
        """
        try:
            if urlsplit(url).scheme.lower() in ("ws", "wss"):
                return await self._by_websocket(offer, url, headers, call), None
            return await self._by_http(offer, url, headers, call)
        except UpstreamError as error:
            error.request_sent = False
            raise

    async def _by_http(
        self, offer: str, url: str, headers: Headers, call: Call[WebrtcTarget]
    ) -> tuple[str, str | None]:
        body = offer.encode()
        other_headers = [pair for pair in headers if pair[0].lower() not in ("content-type", "accept")]
        sent = [*other_headers, ("Content-Type", _SDP), ("Accept", _SDP)]
        response = await self.send(PreparedRequest("POST", url, sent, body), call)
        if response.status not in (200, 201):
            raise await self.rejection(response, call)
        raw = await response.read(_MAX_SDP_LENGTH)
        location = response.headers.get("Location")
        base = url if response.redirection is None else response.redirection.url
        session_url = urljoin(base, location) if location else ""
        try:
            return raw.decode(), session_url if _origin(session_url) == _origin(url) else None
        except UnicodeDecodeError:
            raise UpstreamMalformed("The signalling server's response is not UTF-8.") from None

    async def delete(self, url: str, headers: Headers, call: Call[WebrtcTarget]) -> None:
        """Delete the session (RFC 9725 section 4.2); ignore failures."""
        call.deadline = asyncio.get_running_loop().time() + _DELETE_SECONDS
        try:
            response = await self.send(PreparedRequest("DELETE", url, list(headers), None), call)
        except GatewayError:
            return
        response.close()

    async def _by_websocket(self, offer: str, url: str, headers: Headers, call: Call[WebrtcTarget]) -> str:
        url, sent = attach(url, headers, call.credentials, signs=True)
        url, sent = sign_upgrade(url, sent, call.credentials)
        deadline = call.deadline
        own_id = secrets.token_urlsafe(12)
        loop = asyncio.get_running_loop()
        socket = await WebSocket.open(
            Upgrade(url=url, headers=sent, max_message_bytes=_MAX_SDP_LENGTH),
            network=self._network,
            egress=call.egress,
            masker=self._masker,
            connect_deadline=min(deadline, loop.time() + call.limits.connect),
            deadline=deadline,
        )
        try:
            peer = call.target.model.peer_id
            message = {"type": "offer", "to": peer, "from": own_id, "sdp": offer}
            await socket.send(exact_json.dumps(message).decode(), deadline=deadline)
            for _ in range(_MAX_MESSAGES):
                text = await socket.receive(deadline=deadline, idle=call.limits.idle)
                if text is None:
                    break
                answer = self._session_description(text, peer, own_id)
                if answer is not None:
                    return answer
        finally:
            socket.close()
        raise UpstreamMalformed("The signalling server sent no answer of the peer.")

    def _session_description(self, text: str | bytes, peer: str, own_id: str) -> str | None:
        """Return the session description in a message, None where it is another message."""
        try:
            message = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise UpstreamMalformed("The signalling server's message is not JSON.") from None
        match message:
            case {"type": "error"}:
                raise self._signalling_error(message)
            case {"type": "answer", "sdp": str() as sdp} if message.get("from", peer) == peer:
                return sdp if message.get("to", own_id) == own_id else None
        return None

    def _signalling_error(self, message: dict[str, Any]) -> UpstreamRejected:
        raw = exact_json.dumps({"detail": message.get("detail")})
        body = sanitize_error_body(
            raw, "application/json", masker=self._masker, limit=_MAX_SDP_LENGTH, complete=True
        )
        detail = "The signalling server rejected the offer."
        return UpstreamRejected(detail, response=UpstreamErrorResponse(status=404, body=body))


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()

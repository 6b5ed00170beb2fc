"""An httpx2 transport for the MCP SDK over the HTTP engine: guarded, with limits, without other origins.

An exception in the SDK's tasks would end the session with all of its other calls. So an error is reported to
the attempt of its request, and the SDK gets the status 202 without a body, which ends the request.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

import httpx2
import orjson

from app.core.errors import (
    GatewayError,
    UpstreamError,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.outbound.egress import EgressSettings
from app.outbound.error_bodies import sanitize_error_body
from app.outbound.http import Engine, OutboundRequest
from app.outbound.limits import Limits
from app.outbound.response import OutboundResponse
from app.protocols.mcp.pending_request import CURRENT, PendingRequest, SessionExpired
from app.protocols.requests.request_plan import PreparedRequest
from app.protocols.shared.redirects import explain_redirect, follow_redirects, is_redirect, mark_processed
from app.security.masking import Masker

_DROPPED_HEADERS: Final = frozenset({"content-encoding", "content-length", "transfer-encoding", "set-cookie"})
_ENGINE_HEADERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}
)
_SESSION: Final = "mcp-session-id"
_ERROR_BODY: Final = 64 * 1024
_MAX_SECRET_LENGTH: Final = 8 * 1024
_FOREVER: Final = 365 * 86400.0
_UNBOUNDED: Final = 1 << 50
# The parameter of a challenge (RFC 9728 section 5.1), without userinfo, query and fragment.
_RESOURCE_METADATA: Final = re.compile(r'resource_metadata="(https?://[A-Za-z0-9._~:/\[\]%-]{1,500})"')


class McpTransport(httpx2.AsyncBaseTransport):
    """The transport of one session. `opening` is the attempt for requests that belong to no call."""

    def __init__(
        self,
        engine: Engine,
        *,
        egress: EgressSettings | None,
        masker: Masker,
        opening: PendingRequest,
        scope: bytes = b"",
    ) -> None:
        self._engine = engine
        self._egress = egress
        self._scope = scope
        self._masker = masker
        self._opening = opening

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response to a request; a GET lasts as long as the session, a POST as its attempt."""
        body = await request.aread()
        attempt = CURRENT.get() or self._opening
        is_request = request.method == "POST" and b'"id"' in body and _is_request(body)
        if is_request and attempt.closed:
            return _accepted(request)
        try:
            response = await self._send(request, body, attempt, is_request=is_request)
        except GatewayError as error:
            return self._fail(request, attempt, error, is_request=is_request)
        if is_request:
            attempt.responses.add(response)
        try:
            return await self._to_httpx(request, response, attempt, is_request=is_request)
        except GatewayError as error:
            response.close()
            return self._fail(request, attempt, error, is_request=is_request)

    async def _send(
        self, request: httpx2.Request, body: bytes, attempt: PendingRequest, *, is_request: bool
    ) -> OutboundResponse:
        now = asyncio.get_running_loop().time()
        limits, deadline = attempt.limits, attempt.deadline
        if request.method == "GET":
            limits, deadline = replace(limits, idle=_FOREVER), now + _FOREVER
        elif not is_request:
            # A notification, a response to the server, or the end of the session.
            deadline = now + 5
        else:
            limits = replace(limits, first_byte=max(deadline - now, 0), idle=max(deadline - now, 0))
        headers = [(name, value) for name, value in request.headers.items() if name not in _ENGINE_HEADERS]
        present = {name for name, _ in headers}
        headers += (pair for pair in attempt.headers if pair[0].lower() not in present)

        async def send(prepared: PreparedRequest) -> OutboundResponse:
            return await self._engine.request(
                OutboundRequest(
                    *prepared, limits=limits, deadline=deadline, egress=self._egress, scope=self._scope
                )
            )

        prepared = PreparedRequest(request.method, str(request.url), headers, body or None)
        response = await send(prepared)
        if not is_redirect(response.status):
            return response
        return await follow_redirects(response, prepared, send=send, is_result=lambda _: False)

    async def _to_httpx(
        self,
        request: httpx2.Request,
        response: OutboundResponse,
        attempt: PendingRequest,
        *,
        is_request: bool,
    ) -> httpx2.Response:
        headers = [pair for pair in response.headers.items() if pair[0].lower() not in _DROPPED_HEADERS]
        media = response.headers.get("Content-Type", "").lower()
        status = response.status
        limit = attempt.limits.response_bytes
        if request.method == "GET":
            limit = _UNBOUNDED
            if not 200 <= status < 300:
                response.close()
                challenge = response.headers.get("WWW-Authenticate", "")
                attempt.fail(self._status_error(response, None, challenge=challenge))
                return httpx2.Response(status if status >= 400 else 502, request=request)
        elif not 200 <= status < 300:
            raw, complete = await response.read_prefix(_ERROR_BODY + _MAX_SECRET_LENGTH)
            if is_request and complete and "json" in media and _is_error_response(raw):
                return httpx2.Response(max(status, 400), headers=headers, content=raw, request=request)
            if status == 404 and _SESSION in request.headers:
                raise SessionExpired("The MCP server does not know the session any more.")
            masked = (
                sanitize_error_body(raw, media, masker=self._masker, limit=_ERROR_BODY, complete=complete)
                if raw
                else None
            )
            raise self._status_error(response, masked, challenge=response.headers.get("WWW-Authenticate", ""))
        if "event-stream" in media:
            stream = _SdkResponseStream(response, attempt, limit=limit)
            return httpx2.Response(status, headers=headers, stream=stream, request=request)
        content = await response.read(limit)
        attempt.responses.discard(response)
        if is_request and status != 202 and "json" not in media:
            raise UpstreamMalformed("The MCP server's response is neither JSON nor an event stream.")
        return httpx2.Response(status, headers=headers, content=content, request=request)

    def _status_error(self, response: OutboundResponse, body: Any, *, challenge: str) -> GatewayError:
        """Return the error for a status that is no success; `challenge` is the header WWW-Authenticate."""
        status = response.status
        error_response = UpstreamErrorResponse(status=status, body=body)
        if status == 401:
            metadata = _RESOURCE_METADATA.search(challenge)
            place = f" Its protected resource metadata (RFC 9728) is at {metadata[1]}." if metadata else ""
            error: UpstreamError = UpstreamUnauthorized(
                f"The MCP server rejected the credential (status 401).{place}", response=error_response
            )
        else:
            reason = explain_redirect(response, self._masker)
            detail = f"The MCP server responded with status {status}.{reason}"
            error = UpstreamRejected(detail, response=error_response)
        return mark_processed(error, response.redirection)

    def _fail(
        self, request: httpx2.Request, attempt: PendingRequest, error: GatewayError, *, is_request: bool
    ) -> httpx2.Response:
        if is_request or request.method == "GET":
            attempt.fail(error)
        return _accepted(request) if request.method == "POST" else httpx2.Response(502, request=request)


class _SdkResponseStream(httpx2.AsyncByteStream):
    """An event stream whose errors are reported to its attempt."""

    def __init__(self, response: OutboundResponse, attempt: PendingRequest, *, limit: int) -> None:
        self._response = response
        self._attempt = attempt
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.iterate(self._limit):
                yield piece
        except GatewayError as error:
            if self._response in self._attempt.responses:
                self._attempt.fail(error)

    async def aclose(self) -> None:
        self._attempt.responses.discard(self._response)
        self._response.close()


def _accepted(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(202, request=request)


def _is_request(body: bytes) -> bool:
    """Return whether it is a request, to which there is a response."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(message, dict) and "id" in message and "method" in message


def _is_error_response(raw: bytes) -> bool:
    try:
        message = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return isinstance(message, dict) and "jsonrpc" in message and "error" in message


def closed_early(*, request_sent: bool = True) -> UpstreamUnreachable:
    """Return the error for a connection that ended before the response."""
    return UpstreamUnreachable(
        "The connection to the MCP server ended before its response arrived.", request_sent=request_sent
    )


__all__ = ["Limits", "McpTransport", "closed_early"]

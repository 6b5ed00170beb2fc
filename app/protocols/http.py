"""HTTP: a placed request, credentials last, and an answer that is passed on or explained.

Statuses: 2xx and 304 are results. 401 raises UpstreamUnauthorized, so that a stale token can be renewed.
Every other status raises UpstreamRejected with a bounded, masked body; a redirect, too, because following one
would carry the request to an address that nobody registered.
"""

import base64
from collections.abc import Mapping
from typing import Any, ClassVar

import orjson

from app.errors import UpstreamAnswer, UpstreamError, UpstreamRejected, UpstreamUnauthorized
from app.outbound.attach import Headers, attach
from app.outbound.framing import framed
from app.outbound.http import Engine, OutboundRequest
from app.outbound.refusals import readable
from app.outbound.response import OutboundResponse
from app.protocols.base import Call, Discovered, Result
from app.security.masking import Masker
from app.utcp.arguments import ArgumentPlan, PlacedRequest, compile_plan

_SMALL_BODY = 64 * 1024
_ERROR_BODY = 64 * 1024
_LONGEST_SECRET = 8 * 1024
_DESCRIBED_BODY = 64 * 1024
# What tells the caller something, and can do nothing at the caller's side: no Set-Cookie, no hop-by-hop
# header, nothing that a browser or a cache obeys.
_PASSED_ON = frozenset(
    {
        "link",
        "location",
        "content-location",
        "content-disposition",
        "content-language",
        "etag",
        "last-modified",
        "retry-after",
        "deprecation",
        "sunset",
        "ratelimit",
        "x-request-id",
        "x-total-count",
    }
)
_PASSED_ON_PREFIXES = ("ratelimit-", "x-ratelimit-")
# A URL may hold the key that it was called with.
_HOLD_URLS = frozenset({"link", "location", "content-location"})
_TEXTUAL = ("json", "text", "xml", "yaml", "javascript", "x-www-form-urlencoded")


class HttpAdapter:
    """Calls over HTTP(S) through the engine."""

    name: ClassVar[str] = "http"

    def __init__(self, engine: Engine, masker: Masker) -> None:
        self._engine = engine
        self._masker = masker

    def prepare(self, template: Mapping[str, Any]) -> ArgumentPlan:
        """Compile a template of `call_template_type` http; raises InvalidInput."""
        return compile_plan(template)

    def origin(self, target: ArgumentPlan) -> str:
        """The scheme, host and port of the template's URL, which no argument can change."""
        return target.origin

    def safe(self, target: ArgumentPlan) -> bool:
        """Whether the method is GET, HEAD or OPTIONS."""
        return target.safe

    def idempotent(self, target: ArgumentPlan) -> bool:
        """Whether the method is a safe one, PUT or DELETE."""
        return target.safe or target.method in ("PUT", "DELETE")

    def exact(self, call: Call) -> bytes | None:
        """Method, URL, headers and body as they are placed; None for a request that may have effects, or
        that asks for a part of an answer or for one that has changed (RFC 9110 sections 13 and 14)."""
        placed = call.target.place(call.arguments)
        if placed.method.upper() not in ("GET", "HEAD"):
            return None
        pieces = [placed.method.upper(), placed.url]
        for name, value in placed.headers:
            lowered = name.lower()
            if lowered in ("range", "cache-control", "pragma") or lowered.startswith("if-"):
                return None
            pieces += (lowered, value)
        parts = [*(piece.encode() for piece in pieces), placed.body or b""]
        return b"".join([part for piece in parts for part in (len(piece).to_bytes(4, "big"), piece)])

    def verb(self, target: ArgumentPlan) -> str:
        """The method."""
        return target.method

    async def call(self, call: Call) -> Result:
        """Send the request; small answers are read at once, others streamed within
        `limits.response_bytes`."""
        response = await self._send(call.target.place(call.arguments), call)
        status = response.status
        if not (200 <= status < 300 or status == 304):
            raise await self._rejection(response, call)
        limit = call.limits.response_bytes
        result = Result(
            status=status,
            headers=self._passed_on(response),
            media_type=response.headers.get("Content-Type", ""),
            body=None,
            received=response.headers,
        )
        length = response.length
        if response.arrived or (length is not None and length <= _SMALL_BODY):
            result.body = await response.read(limit)
        else:
            response.accept(limit)
            result.stream = response.iterate(limit)
            result.close_with(response.close)
        if call.ends is not None:
            response.extend(call.ends)
            result.events = framed(result.iterate(), result.media_type, most=call.limits.event_bytes)
        return result

    async def discover(self, call: Call) -> Discovered:
        """The document at the template's URL, asked for with its method, auth and headers."""
        placed = call.target.place(call.arguments)
        response = await self._send(placed, call)
        if not 200 <= response.status < 300:
            raise await self._rejection(response, call)
        raw = await response.read(call.limits.response_bytes)
        return Discovered(raw=raw, media_type=response.headers.get("Content-Type", ""), url=placed.url)

    def describe(self, call: Call) -> dict[str, Any]:
        """The request as JSON. A body that is neither JSON nor text is given in base64."""
        placed: PlacedRequest = call.target.place(call.arguments)
        url, headers = attach(placed.url, _merged(placed.headers, call), call.credentials, masked=True)
        return {
            "method": placed.method,
            "url": url,
            "headers": dict(headers),
            "body": None if placed.body is None else _readable(placed.body),
        }

    async def aclose(self) -> None:
        """Nothing is held: the connections are the engine's."""

    async def _send(self, placed: PlacedRequest, call: Call) -> OutboundResponse:
        url, headers = placed.url, placed.headers
        if call.headers:
            headers = _merged(headers, call)
        if call.credentials:
            url, headers = attach(url, headers, call.credentials)
        return await self._engine.request(
            OutboundRequest(
                method=placed.method,
                url=url,
                headers=headers,
                body=placed.body,
                limits=call.limits,
                deadline=call.deadline,
                egress=call.egress,
            )
        )

    async def _rejection(self, response: OutboundResponse, call: Call) -> UpstreamError:
        status = response.status
        answer = UpstreamAnswer(
            status=status, body=await self._error_body(response), headers=dict(self._passed_on(response))
        )
        if status == 401:
            sent = "the stored credential" if call.credentials else "a call without a credential"
            return UpstreamUnauthorized(f"The upstream refused {sent} (status 401).", answer=answer)
        detail = f"The upstream answered with status {status}."
        if 300 <= status < 400:
            detail += " Redirects are not followed: register the address that it points to."
        return UpstreamRejected(detail, answer=answer)

    async def _error_body(self, response: OutboundResponse) -> Any:
        """The beginning of the body, as JSON where it is JSON, known secrets struck out; None if
        unreadable."""
        media_type = response.headers.get("Content-Type", "")
        if media_type and not any(word in media_type.lower() for word in _TEXTUAL):
            response.close()
            return None
        try:
            # More is read than shown: a secret that the end cuts in two would not be known again.
            raw, complete = await response.read_some(_ERROR_BODY + _LONGEST_SECRET)
        except UpstreamError:
            return None
        if not raw:
            return None
        return readable(raw, media_type, masker=self._masker, limit=_ERROR_BODY, complete=complete)

    def _passed_on(self, response: OutboundResponse) -> Headers:
        passed: Headers = []
        for name, value in response.headers.items():
            lowered = name.lower()
            if lowered not in _PASSED_ON and not lowered.startswith(_PASSED_ON_PREFIXES):
                continue
            if value.isascii() and value.isprintable():
                passed.append((name, self._masker.mask(value) if lowered in _HOLD_URLS else value))
        return passed


def _merged(headers: Headers, call: Call) -> Headers:
    """The tool's headers, and those of the call that the tool does not have."""
    present = {name.lower() for name, _ in headers}
    return [*headers, *(pair for pair in call.headers if pair[0].lower() not in present)]


def _readable(body: bytes) -> Any:
    if len(body) > _DESCRIBED_BODY:
        return {"bytes": len(body)}
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}

"""What protocols over HTTP(S) share: sending a prepared request, and errors for its failures.

Statuses: 2xx and 304 are results. 401 raises UpstreamUnauthorized, so that a stale token can be renewed.
Every other status raises UpstreamRejected with a bounded, masked body; a redirect, too, because following one
would carry the request to an address that nobody registered.
"""

import base64
import codecs
import json
from collections.abc import Iterable
from typing import Any

from app import exact_json
from app.errors import UpstreamError, UpstreamErrorResponse, UpstreamRejected, UpstreamUnauthorized
from app.http_requests.plan_compiler import PreparedRequest
from app.outbound.attach import Headers, attach, sign
from app.outbound.error_bodies import sanitize_error_body
from app.outbound.http import OutboundRequest
from app.outbound.response import OutboundResponse
from app.protocols.base import AdapterContext, Call, Discovered
from app.security.response_masking import ResponseMasker

_ERROR_BODY = 64 * 1024
# One challenge to a request without credentials, and one that calls the nonce of the second stale.
_MAX_CHALLENGES = 2
_MAX_SECRET_LENGTH = 8 * 1024
_DESCRIBED_BODY = 64 * 1024
# Headers that inform the client and change nothing on its side: no Set-Cookie, no hop-by-hop header, nothing
# that a browser or a cache obeys.
_PASSED_HEADERS = frozenset(
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
_PASSED_HEADER_PREFIXES = ("ratelimit-", "x-ratelimit-")
# A URL may hold the key that it was called with.
_HOLD_URLS = frozenset({"link", "location", "content-location"})
_TEXTUAL = ("json", "text", "xml", "yaml", "javascript", "x-www-form-urlencoded")


class HttpBasedAdapter:
    """The base of adapters that use the HTTP engine."""

    def __init__(self, context: AdapterContext) -> None:
        self._engine = context.engine
        self._masker = context.masker

    async def aclose(self) -> None:
        """Do nothing: the connections are the engine's."""

    async def send(self, prepared: PreparedRequest, call: Call[Any]) -> OutboundResponse:
        """Send a request with the call's headers and credentials; return when the response's headers arrive.

        Raise what the engine raises. Set `call.resent` where the request was sent twice.
        """
        url, headers = prepared.url, prepared.headers
        if call.headers:
            headers = _merge_headers(headers, call)
        if call.credentials:
            url, headers = attach(url, headers, call.credentials, signs=True)
            for wire in call.credentials:
                if wire.signer is not None:
                    return await self._send_signed(prepared._replace(url=url, headers=headers), call)
        request = _outbound_request(prepared, url, headers, call)
        try:
            return await self._engine.request(request)
        finally:
            call.resent = request.resent

    async def _send_signed(self, prepared: PreparedRequest, call: Call[Any]) -> OutboundResponse:
        """Sign and send a request; where the upstream's challenge asks for it, sign and send it once more."""
        attempts = 0
        while True:
            url, headers, signatures = sign(
                prepared.url, prepared.headers, call.credentials, method=prepared.method, body=prepared.body
            )
            if call.masker is not None:
                made = ResponseMasker.for_values(signature.value for _, signature in signatures)
                call.masker = call.masker.combined_with(made)
            request = _outbound_request(prepared, url, headers, call)
            try:
                response = await self._engine.request(request)
            finally:
                call.resent = request.resent
            attempts += 1
            if response.status != 401 or attempts > _MAX_CHALLENGES:
                return response
            challenges = response.headers.getall("WWW-Authenticate", [])
            answerable = [
                signer.accept_challenge(challenges, dict(signature.headers))
                for signer, signature in signatures
                if signer.needs_challenge
            ]
            if not any(answerable):
                return response
            # The body is read, so that the connection can be used for the next request.
            await response.read_prefix(_ERROR_BODY)

    async def fetch_document(self, prepared: PreparedRequest, call: Call[Any]) -> Discovered:
        """Send the request of a discovery and return its whole response; raise what a call raises."""
        response = await self.send(prepared, call)
        if not 200 <= response.status < 300:
            raise await self.rejection(response, call)
        raw = await response.read(call.limits.response_bytes)
        return Discovered(
            raw=raw,
            media_type=response.headers.get("Content-Type", ""),
            url=prepared.url,
            language=response.headers.get("Content-Language", ""),
        )

    async def rejection(self, response: OutboundResponse, call: Call[Any]) -> UpstreamError:
        """Return the error for a response whose status is not a success; read the beginning of its body."""
        status = response.status
        error_response = UpstreamErrorResponse(
            status=status,
            body=await self._error_body(response),
            # Plain text in place of multidict's, which orjson does not serialise as a name.
            headers={str(name): value for name, value in self.response_headers(response)},
        )
        if status == 401:
            sent = "the stored credential" if call.credentials else "a call without a credential"
            return UpstreamUnauthorized(
                f"The upstream rejected {sent} (status 401).", response=error_response
            )
        detail = f"The upstream responded with status {status}."
        if 300 <= status < 400:
            detail += " Redirects are not followed: register the address that it points to."
        return UpstreamRejected(detail, response=error_response)

    async def _error_body(self, response: OutboundResponse) -> Any:
        """Return the beginning of the body, as JSON where it is JSON, secrets masked; None if unreadable."""
        media_type = response.headers.get("Content-Type", "")
        # Servers that name no media type send this one: the body is text where it can be decoded.
        is_unnamed = media_type.partition(";")[0].strip().lower() == "application/octet-stream"
        if media_type and not is_unnamed and not any(word in media_type.lower() for word in _TEXTUAL):
            response.close()
            return None
        try:
            # More is read than returned: a secret that is cut at the end could not be recognised.
            raw, complete = await response.read_prefix(_ERROR_BODY + _MAX_SECRET_LENGTH)
        except UpstreamError:
            return None
        if not raw or (is_unnamed and not _is_text(raw)):
            return None
        return sanitize_error_body(raw, media_type, masker=self._masker, limit=_ERROR_BODY, complete=complete)

    def response_headers(self, response: OutboundResponse) -> Headers:
        """Return the headers that may be passed on to the client, URLs masked."""
        headers: Headers = []
        for name, value in response.headers.items():
            lowered = name.lower()
            if lowered not in _PASSED_HEADERS and not lowered.startswith(_PASSED_HEADER_PREFIXES):
                continue
            if value.isascii() and value.isprintable():
                headers.append((name, self._masker.mask(value) if lowered in _HOLD_URLS else value))
        return headers

    def describe_request(self, prepared: PreparedRequest, call: Call[Any]) -> dict[str, Any]:
        """Return the request as JSON, secrets masked as `***`.

        A body that is neither JSON nor text is `{"base64": ...}`, one above 64 KiB is `{"bytes": size}`.
        """
        url, headers = attach(
            prepared.url,
            _merge_headers(prepared.headers, call),
            call.credentials,
            masked=True,
            signs=True,
        )
        return {
            "method": prepared.method,
            "url": url,
            "headers": dict(headers),
            "body": None if prepared.body is None else _readable(prepared.body),
        }


def join_length_prefixed(pieces: Iterable[bytes]) -> bytes:
    """Return the pieces, each after its length, so that different lists give different bytes."""
    return b"".join([part for piece in pieces for part in (len(piece).to_bytes(4, "big"), piece)])


def _outbound_request(
    prepared: PreparedRequest, url: str, headers: Headers, call: Call[Any]
) -> OutboundRequest:
    return OutboundRequest(
        method=prepared.method,
        url=url,
        headers=headers,
        body=prepared.body,
        limits=call.limits,
        deadline=call.deadline,
        egress=call.egress,
        scope=call.scope if call.reuse else b"",
        resend=call.resend,
    )


def _merge_headers(headers: Headers, call: Call[Any]) -> Headers:
    """Return the tool's headers, and those of the call that the tool does not set."""
    present = {name.lower() for name, _ in headers}
    return [*headers, *(pair for pair in call.headers if pair[0].lower() not in present)]


def _is_text(raw: bytes) -> bool:
    """Return whether bytes are UTF-8 without control characters, or the beginning of such a text."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(raw)
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character.isspace() for character in text)


def _readable(body: bytes) -> Any:
    if len(body) > _DESCRIBED_BODY:
        return {"bytes": len(body)}
    try:
        return exact_json.loads(body)
    except json.JSONDecodeError:
        pass
    try:
        return body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}

"""What protocols over HTTP(S) share: sending a prepared request, and errors for its failures.

Statuses: 2xx and 304 are results. 401 raises UpstreamUnauthorized, so that a stale token can be renewed.
A redirect within the origin is followed (`shared.redirects`), unless the operation declares it as its result.
Every other status raises UpstreamRejected with a bounded, masked body; so does a redirect to another origin,
because following it would carry the request to an address that nobody registered. Those of a discovery are
followed by `app.providers.registration`, for which it raises Redirected.
"""

import codecs
from collections.abc import Iterable
from functools import partial
from typing import Any

from app.core.errors import UpstreamError, UpstreamErrorResponse, UpstreamRejected, UpstreamUnauthorized
from app.core.media_types import parse_essence
from app.outbound.attach import Headers, attach, sign
from app.outbound.error_bodies import sanitize_error_body
from app.outbound.http import OutboundRequest
from app.outbound.response import OutboundResponse
from app.protocols.base import AdapterContext, Call, Discovered, Redirected
from app.protocols.requests.plan_compiler import PreparedRequest
from app.protocols.shared.described import describe_body, describe_headers
from app.protocols.shared.redirects import (
    FOLLOWED_STATUSES,
    explain_redirect,
    follow_redirects,
    is_redirect,
    mark_processed,
)
from app.protocols.shared.response_headers import select_passed_headers
from app.security.response_masking import ResponseMasker

_ERROR_BODY = 64 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# One challenge to a request without credentials, and one that calls the nonce of the second stale.
_MAX_CHALLENGES = 2
_MAX_SECRET_LENGTH = 8 * 1024
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

        Redirects within the origin are followed. Raise what the engine raises. Set `call.resent` where a
        request was sent twice.
        """
        response = await self._send_once(prepared, call)
        if is_redirect(response.status):
            return await follow_redirects(
                response,
                prepared,
                send=partial(self._send_once, call=call),
                is_result=partial(self.is_result, call),
            )
        return response

    def is_result(self, call: Call[Any], status: int) -> bool:  # noqa: ARG002 - of protocols that declare some.
        """Return whether a response with this status, 3xx, is the result of the call."""
        return False

    async def _send_once(self, prepared: PreparedRequest, call: Call[Any]) -> OutboundResponse:
        """Send a request as `send` does, without following redirects."""
        url, headers = prepared.url, prepared.headers
        if call.headers:
            headers = _merge_headers(headers, call)
        if call.credentials:
            url, headers = attach(url, headers, call.credentials, signs=True)
            for wire in call.credentials:
                if wire.signer is not None:
                    return await self._send_signed(prepared._replace(url=url, headers=headers), call)
        return await self._request(prepared, url, headers, call)

    async def _request(
        self, prepared: PreparedRequest, url: str, headers: Headers, call: Call[Any]
    ) -> OutboundResponse:
        """Send a request with this URL and these headers in place of its own; note whether it was resent."""
        request = OutboundRequest(
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
        try:
            return await self._engine.request(request)
        finally:
            call.resent = call.resent or request.resent

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
            response = await self._request(prepared, url, headers, call)
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
        """Send the request of a discovery and return its whole response.

        Raise Redirected for a redirect, which its registration follows or not, and what a call raises.
        """
        response = await self._send_once(prepared, call)
        if not 200 <= response.status < 300:
            raise _build_discovery_error(await self.rejection(response, call), response, prepared)
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
            error: UpstreamError = UpstreamUnauthorized(
                f"The upstream rejected {sent} (status 401).", response=error_response
            )
        else:
            detail = f"The upstream responded with status {status}.{explain_redirect(response, self._masker)}"
            error = UpstreamRejected(detail, response=error_response)
        return mark_processed(error, response.redirection)

    async def _error_body(self, response: OutboundResponse) -> Any:
        """Return the beginning of the body, as JSON where it is JSON, secrets masked; None if unreadable."""
        media_type = response.headers.get("Content-Type", "")
        # Servers that name no media type send this one: the body is text where it can be decoded.
        is_unnamed = parse_essence(media_type) == "application/octet-stream"
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
        return [
            (name, self._masker.mask(value) if name.lower() in _HOLD_URLS else value)
            for name, value in select_passed_headers(response.headers.items())
        ]

    def describe_request(self, prepared: PreparedRequest, call: Call[Any]) -> dict[str, Any]:
        """Return the request as JSON, secrets masked as `***`.

        The body is as of `describe_body`; the value of a repeated header is a list.
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
            "headers": describe_headers(headers),
            "body": None if prepared.body is None else describe_body(prepared.body),
        }


def _build_discovery_error(
    error: UpstreamError, response: OutboundResponse, prepared: PreparedRequest
) -> UpstreamError:
    """Return the error of a discovery's response; as Redirected where it leads to another address."""
    location = response.headers.get("Location", "")
    if error.response is None or not is_redirect(response.status):
        return error
    if response.status not in FOLLOWED_STATUSES or not location:
        why = "It has no Location" if not location else "Redirects of this status are not followed"
        return UpstreamRejected(
            f"The upstream responded with status {response.status}. {why}.", response=error.response
        )
    return Redirected(
        error.detail, response=error.response, method=prepared.method, url=prepared.url, location=location
    )


def join_length_prefixed(pieces: Iterable[bytes]) -> bytes:
    """Return the pieces, each after its length, so that different lists give different bytes."""
    return b"".join([part for piece in pieces for part in (len(piece).to_bytes(4, "big"), piece)])


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

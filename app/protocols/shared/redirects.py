"""Redirects of HTTP (RFC 9110 section 15.4): by which request they are followed, and which are not.

    303                by GET (HEAD by HEAD), without the body
    307, 308           with method and body
    301, 302           for GET and HEAD only: clients disagree about the others
    another origin     never: nobody has said that arguments and credentials may go there

At most `MAX_REDIRECTS` are followed for a request. Each goes through the engine, and so through the address
guard, and has the deadline of the first.
"""

from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import quote_from_bytes

from yarl import URL

from app.core.errors import UpstreamError
from app.core.telemetry.redaction import mask_shapes
from app.outbound.response import OutboundResponse, Redirection
from app.protocols.requests.plan_compiler import SAFE_METHODS
from app.protocols.requests.request_plan import PreparedRequest
from app.security.masking import URI_CHARACTERS, Masker

MAX_REDIRECTS: Final = 5
FOLLOWED_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_MAX_LOCATION: Final = 8 * 1024
_MAX_SHOWN: Final = 2_048


def is_redirect(status: int) -> bool:
    """Return whether a status is 3xx but 304, which is about a representation that the client has."""
    return 300 <= status < 400 and status != 304


def is_declared(status: int, declared: tuple[str, ...]) -> bool:
    """Return whether a status is one of those declared: "302", or "3XX" for all."""
    return bool(declared) and (str(status) in declared or "3XX" in declared)


def resolve_location(location: str, base: str) -> URL | None:
    """Return the URL that a Location names, seen from a URL; None where it names none.

    Characters that a URI does not have are percent-encoded.
    """
    if not location or len(location) > _MAX_LOCATION:
        return None
    try:
        reference = URL(encode_location(location), encoded=True)
        url = URL(base, encoded=True).join(reference)
        is_url = url.scheme in ("http", "https") and (reference.host or not reference.scheme)
    except ValueError:
        return None
    return url if is_url else None


def encode_location(location: str) -> str:
    """Return a Location, percent-encoded where its server did not."""
    return quote_from_bytes(location.encode("utf-8", "surrogateescape"), safe=URI_CHARACTERS)


def is_same_origin(url: URL, base: str) -> bool:
    """Return whether a URL has the scheme, host and port of another one, and names no user."""
    other = URL(base, encoded=True)
    if url.user is not None or url.password is not None:
        return False
    return (url.scheme, (url.host or "").lower(), url.port) == (
        other.scheme,
        (other.host or "").lower(),
        other.port,
    )


async def follow_redirects(
    response: OutboundResponse,
    request: PreparedRequest,
    *,
    send: Callable[[PreparedRequest], Awaitable[OutboundResponse]],
    is_result: Callable[[int], bool],
) -> OutboundResponse:
    """Return the response in which the redirects end that begin with `response`, which is one to `request`.

    It is a redirect itself where it is not followed, or is the result of the operation by `is_result`. Its
    `redirection` then says why, and its Location is absolute. `send` adds the credentials to a request, and
    sends it; raise what it raises. Where a 303 says that the call was processed, its errors are marked so
    that it is not sent again.
    """
    redirection = Redirection(request.url)
    followed = 0
    while is_redirect(response.status):
        target = resolve_location(response.headers.get("Location", ""), request.url)
        if target is not None:
            response.headers["Location"] = str(target)
        if is_result(response.status):
            break
        redirection.reason = _reject(response.status, request, target, followed)
        if redirection.reason or target is None:
            break
        response.close()
        redirection.is_temporary |= response.status not in (301, 308)
        redirection.is_processed |= response.status == 303 and request.method not in SAFE_METHODS
        request = _build_request(request, response.status, str(target.with_fragment(None)))
        redirection.url = request.url
        followed += 1
        try:
            response = await send(request)
        except UpstreamError as error:
            mark_processed(error, redirection)
            raise
    response.redirection = redirection
    return response


def mark_processed(error: UpstreamError, redirection: Redirection | None) -> UpstreamError:
    """Return an error, which says that the call is not to be sent again where it was processed."""
    if redirection is not None and redirection.is_processed:
        error.request_sent = error.response_begun = True
    return error


def explain_redirect(response: OutboundResponse, masker: Masker) -> str:
    """Return a sentence about why a redirect was not followed, and where it points, secrets masked.

    It begins with a blank, and is "" for another response.
    """
    if not is_redirect(response.status):
        return ""
    if response.redirection is None:
        return " Redirects are not followed: register the address that it points to."
    return f" {mask_shapes(masker.mask(response.redirection.reason))}"


def _build_request(request: PreparedRequest, status: int, url: str) -> PreparedRequest:
    """Return the request that follows a redirect."""
    if status != 303 or request.method in ("GET", "HEAD"):
        return request._replace(url=url)
    headers = [pair for pair in request.headers if not pair[0].lower().startswith("content-")]
    return PreparedRequest("GET", url, headers, None)


def _reject(status: int, request: PreparedRequest, target: URL | None, followed: int) -> str:
    """Return why a redirect is not followed, "" where it is."""
    if target is None:
        return "It is not followed: its Location is missing, or no URL of HTTP."
    if not is_same_origin(target, request.url):
        why = "Redirects to another origin are not followed: register the address"
    elif status not in FOLLOWED_STATUSES:
        why = "Redirects of this status are not followed; this one is to the address"
    elif status in (301, 302) and request.method not in ("GET", "HEAD"):
        why = f"Redirects of this status are not followed for {request.method}: register the address"
    elif followed >= MAX_REDIRECTS:
        why = f"More than {MAX_REDIRECTS} redirects are not followed; the last one is to the address"
    else:
        return ""
    address = str(target.with_fragment(None))
    # Not cut: a secret of which the end is missing would not be masked.
    return f"{why} {address if len(address) <= _MAX_SHOWN else f'of {len(address)} characters'}"

"""Which redirects of a source are followed, and what is sent to the next address.

Whoever answers for the source's URL chooses the next address. So the address guard sees it like any other,
nothing that the registrar gave for the source goes to another origin than that of its URL, and the origin of
the last address is none that the registrar has named: credentials of calls go there only where
`options.redirect_origin` confirms it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from app.core.errors import UpstreamError
from app.openapi.report import SourceWarning
from app.outbound.egress import EgressSettings, without_client_certificate
from app.protocols.base import Redirected
from app.protocols.call_templates import protocol_of
from app.protocols.shared.redirects import MAX_REDIRECTS, encode_location, resolve_location
from app.providers.credentials.origins import origin_of

_MAX_ADDRESS: Final = 2_048
_REGISTER: Final = "If the address is right, register it in place of the URL."


def find_next_address(redirect: Redirected, *, home: str, is_bound: bool, count: int) -> str:
    """Return the address that a source's redirect leads to, the `count`th in a row.

    `home` is the origin of the source's URL; `is_bound`: a credential is sent with the request. Raises
    UpstreamError, which names the address, for a redirect that is not followed.
    """
    address = _join_address(redirect)
    origin = origin_of(address)
    if len(address) > _MAX_ADDRESS:
        reason = f"which has more than {_MAX_ADDRESS} characters"
    elif origin is None:
        reason = "which is no http:// or https:// URL without user name"
    elif count > MAX_REDIRECTS:
        reason = f"which is redirect {count} in a row; at most {MAX_REDIRECTS} are followed"
    elif redirect.method != "GET":
        reason = f"and only requests with GET are redirected, not those with {redirect.method}"
    elif urlsplit(redirect.url).scheme == "https" and urlsplit(address).scheme != "https":
        reason = "which would leave https"
    elif is_bound and origin != home:
        reason = f"and the credential of the source is sent to its own origin only, which is {home}"
    else:
        return address
    # Not cut: a secret of which the end is missing would not be masked.
    shown = address if len(address) <= _MAX_ADDRESS else "an address"
    failure = UpstreamError(f"The source redirects to {shown}, {reason}.", response=redirect.response)
    failure.hint = _REGISTER
    raise failure


def build_template_at(template: Mapping[str, Any], address: str, *, home: str) -> dict[str, Any]:
    """Return the call template that requests another address than its own.

    Headers and whatever else the registrar gave belong to the origin `home`.
    """
    if origin_of(address) == home:
        return {**template, "url": address}
    return {"call_template_type": protocol_of(template), "url": address}


def restrict_egress(egress: EgressSettings | None) -> EgressSettings | None:
    """Return the outbound settings for another origin: without the client certificate and the Unix socket."""
    return None if egress is None else replace(without_client_certificate(egress), unix_socket=None)


def warn_of_unconfirmed(final_url: str | None, named: tuple[str, ...]) -> SourceWarning | None:
    """Return the warning about a source that was read from another origin than those that the registrar has
    named; None where it was not. `final_url` is None for a source that was not redirected.
    """
    origin = None if final_url is None else origin_of(final_url)
    if origin is None or origin in named:
        return None
    return SourceWarning(
        f"The source redirects from {named[0]} to {origin}. Credentials are sent to {', '.join(named)} only, "
        f"and not to {origin}, until `options.redirect_origin` confirms it with the value {origin}."
    )


def without_query(address: str) -> str:
    """Return the address without its query, which may hold the signature of a download."""
    return urlsplit(address)._replace(query="").geturl()


def _join_address(redirect: Redirected) -> str:
    """Return the absolute address of a redirect, or its Location where that is no URL of HTTP."""
    location = redirect.location.strip()
    target = resolve_location(location, redirect.url)
    return encode_location(location) if target is None else str(target.with_fragment(None))

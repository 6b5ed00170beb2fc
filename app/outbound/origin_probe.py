"""Checks how far an origin can be reached: name resolution, connection, TLS and its certificate.

Nothing is sent but the TLS handshake. A certificate that is not acceptable is read in a second handshake,
without verification and without the client certificate, only to say what is wrong with it.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from cryptography import x509

from app.core.deadlines import Deadline, get_timer_queue
from app.core.errors import GatewayError, UpstreamUnreachable
from app.outbound.egress import EgressSettings
from app.outbound.http1.dialing import Address
from app.outbound.network import Network

_T = TypeVar("_T")
# Codes of X509_verify_cert() of OpenSSL.
_REASONS: Final = {
    9: "The certificate is not valid yet.",
    10: "The certificate has expired.",
    18: "The certificate is self-signed.",
    19: "The certificate was issued by an authority that is not trusted.",
    20: "The certificate was issued by an authority that is not trusted.",
    21: "The certificate was issued by an authority that is not trusted.",
    62: "The certificate is not valid for this host name.",
    64: "The certificate is not valid for this IP address.",
}
_MAX_NAME: Final = 500


@dataclass(frozen=True, slots=True)
class OriginCertificate:
    """The certificate of an origin; `subject` and `issuer` as in RFC 4514, times aware."""

    subject: str
    issuer: str
    not_before: datetime
    not_after: datetime


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """One step of a probe: `name` is resolution, connection or tls. `error` is None where it succeeded."""

    name: str
    milliseconds: float
    error: GatewayError | None = None


@dataclass(frozen=True, slots=True)
class OriginProbe:
    """The steps of a probe, of which only the last one may have failed, and the certificate where one was
    read. `certificate_error` says why it is not acceptable, "" where it is.
    """

    steps: tuple[ProbeStep, ...]
    certificate: OriginCertificate | None = None
    certificate_error: str = ""


async def probe_origin(
    network: Network, address: Address, *, tls: bool, egress: EgressSettings | None, deadline: float
) -> OriginProbe:
    """Resolve, connect to and, with `tls`, shake hands with an address, until `deadline` (`loop.time()`).

    Failures are part of the result. The address guard applies; a provider's proxy and CAs are used.
    """
    proxied = egress is not None and (
        egress.proxy_url is not None or egress.socket_path(address.host) is not None
    )
    steps: list[ProbeStep] = []
    if not proxied:
        step, _ = await _timed("resolution", lambda: network.resolve(address, deadline=deadline))
        steps.append(step)
        if step.error is not None:
            return OriginProbe(tuple(steps))
    step, raw = await _timed(
        "connection", lambda: network.connect_socket(address, egress=egress, deadline=deadline)
    )
    steps.append(step)
    if raw is None:
        return OriginProbe(tuple(steps))
    if not tls:
        raw.close()
        return OriginProbe(tuple(steps))
    context = network.tls_context(egress)
    step, found = await _timed("tls", lambda: _handshake(raw, address, context, deadline=deadline))
    if found is not None:
        return OriginProbe((*steps, step), found)
    if not isinstance(step.error, _NotAcceptable):
        return OriginProbe((*steps, step))
    certificate = await _unverified(network, address, egress, deadline=deadline)
    return OriginProbe((*steps, step), certificate, step.error.detail)


class _NotAcceptable(UpstreamUnreachable):
    """The certificate of the upstream is not acceptable."""


async def _timed(name: str, run: Callable[[], Awaitable[_T]]) -> tuple[ProbeStep, _T | None]:
    """Return the step and what it returned; None where it raised a GatewayError."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    error: GatewayError | None = None
    found: _T | None = None
    try:
        found = await run()
    except GatewayError as failed:
        error = failed
    return ProbeStep(name, round((loop.time() - began) * 1000, 3), error), found


async def _handshake(
    raw: Any, address: Address, context: ssl.SSLContext, *, deadline: float
) -> OriginCertificate:
    """Shake hands over a connected socket, which is closed, and return the peer's certificate."""
    try:
        with Deadline(get_timer_queue(), deadline):
            _, writer = await asyncio.open_connection(
                sock=raw, ssl=context, server_hostname=address.host.rstrip(".")
            )
    except ssl.SSLCertVerificationError as error:
        raw.close()
        reason = _REASONS.get(error.verify_code, "The certificate is not acceptable.")
        raise _NotAcceptable(reason, request_sent=False) from None
    except TimeoutError:
        raw.close()
        raise UpstreamUnreachable("The TLS handshake did not end in time.", request_sent=False) from None
    except (OSError, ssl.SSLError):
        raw.close()
        raise UpstreamUnreachable("The TLS handshake failed.", request_sent=False) from None
    except BaseException:
        raw.close()
        raise
    try:
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.transport.abort()
    return _certificate(der)


async def _unverified(
    network: Network, address: Address, egress: EgressSettings | None, *, deadline: float
) -> OriginCertificate | None:
    """Return the certificate that was not acceptable; None where it cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if egress is not None:
        egress = replace(egress, client_certificate=None, client_key=None)
    try:
        raw = await network.connect_socket(address, egress=egress, deadline=deadline)
        return await _handshake(raw, address, context, deadline=deadline)
    except GatewayError:
        return None


def _certificate(der: bytes) -> OriginCertificate:
    try:
        found = x509.load_der_x509_certificate(der)
        return OriginCertificate(
            subject=found.subject.rfc4514_string()[:_MAX_NAME],
            issuer=found.issuer.rfc4514_string()[:_MAX_NAME],
            not_before=found.not_valid_before_utc.astimezone(UTC),
            not_after=found.not_valid_after_utc.astimezone(UTC),
        )
    except ValueError:
        raise UpstreamUnreachable("The certificate cannot be read.", request_sent=False) from None

"""Whether the origins of a provider can be reached: resolution, connection, TLS, and for HTTP a HEAD request.

No credential is sent.
"""

import asyncio
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from app.core.errors import GatewayError
from app.outbound.egress import EgressSettings
from app.outbound.http import Engine, OutboundRequest
from app.outbound.limits import Limits
from app.outbound.network import Address
from app.outbound.origin_probe import OriginProbe, probe_origin
from app.protocols.command_routing import CommandRouter
from app.protocols.command_routing.model import executor_away
from app.protocols.registry import PROTOCOLS
from app.providers.checks.records import CheckedCertificate, OriginResult, StepResult

EXPIRY_WARNING_DAYS: Final = 14
_HTTP_PORTS: Final = {"http": 80, "https": 443}
_WEB_PORTS: Final = {**_HTTP_PORTS, "ws": 80, "wss": 443}


async def check_origin(
    origin: str, *, engine: Engine, egress: EgressSettings | None, limits: Limits, deadline: float
) -> OriginResult:
    """Return how far an origin can be reached until `deadline` (`loop.time()`), failures included."""
    address, scheme = _parse_address(origin)
    if address is None or scheme in PROTOCOLS.datagram_schemes:
        return OriginResult(origin, "not_checkable")
    loop = asyncio.get_running_loop()
    until = min(deadline, loop.time() + limits.connect)
    is_tls = scheme == "https" or scheme in PROTOCOLS.tls_schemes
    probe = await probe_origin(engine.network, address, tls=is_tls, egress=egress, deadline=until)
    steps = [_describe_step(one.name, one.milliseconds, one.error) for one in probe.steps]
    http_status = None
    if scheme in _HTTP_PORTS and all(one.error is None for one in probe.steps):
        began = loop.time()
        error = None
        try:
            http_status = await _request_head(
                origin, engine=engine, egress=egress, limits=limits, deadline=deadline
            )
        except GatewayError as failed:
            error = failed
        steps.append(_describe_step("http", round((loop.time() - began) * 1000, 3), error))
    return OriginResult(
        origin=origin,
        status="ok" if all(one.status == "ok" for one in steps) else "failed",
        steps=steps,
        certificate=_describe_certificate(probe),
        http_status=http_status,
    )


async def check_executor(
    origin: str, *, commands: CommandRouter, tenant_id: UUID, provider: str
) -> OriginResult:
    """Return whether an executor of the provider is connected, at any worker."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await commands.announce()
    is_connected = bool(commands.commands_of(tenant_id, provider))
    error = None if is_connected else executor_away(provider, commands.away_since(tenant_id, provider))
    return OriginResult(
        origin=origin,
        status="ok" if is_connected else "failed",
        steps=(_describe_step("connection", round((loop.time() - began) * 1000, 3), error),),
    )


async def _request_head(
    origin: str, *, engine: Engine, egress: EgressSettings | None, limits: Limits, deadline: float
) -> int:
    """Return the status of the response to HEAD / on a new connection; raise what the engine raises."""
    request = OutboundRequest(
        method="HEAD", url=f"{origin}/", limits=limits, deadline=deadline, egress=egress, resend=False
    )
    response = await engine.request(request)
    response.close()
    return response.status


def _parse_address(origin: str) -> tuple[Address | None, str]:
    """Return host and port of an origin, None where it is not on a network, and its scheme."""
    try:
        parts = urlsplit(origin)
        port = parts.port or _WEB_PORTS.get(parts.scheme)
    except ValueError:
        return None, ""
    is_network = parts.scheme in _WEB_PORTS or parts.scheme in PROTOCOLS.socket_schemes
    if not is_network or not parts.hostname or port is None:
        return None, parts.scheme
    return Address(parts.hostname, port), parts.scheme


def _describe_step(name: str, milliseconds: float, error: GatewayError | None) -> StepResult:
    return StepResult(
        step=name,
        status="ok" if error is None else "failed",
        milliseconds=milliseconds,
        problem=None if error is None else error.slug,
        detail=None if error is None else error.detail,
    )


def _describe_certificate(probe: OriginProbe) -> CheckedCertificate | None:
    certificate = probe.certificate
    if certificate is None:
        return None
    return CheckedCertificate(
        subject=certificate.subject,
        issuer=certificate.issuer,
        valid_from=certificate.not_before,
        valid_until=certificate.not_after,
        days_left=(certificate.not_after - datetime.now(UTC)).days,
        trusted=not probe.certificate_error,
    )

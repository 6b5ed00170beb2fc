"""From aiohttp's exceptions to the gateway's errors. No exception's text passes: it may hold addresses."""

import asyncio
import socket
import ssl

import aiohttp

from app.errors import (
    BlockedAddress,
    GatewayError,
    InvalidInput,
    UpstreamMalformed,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from app.outbound.guard import AddressDenied

CAUGHT = (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError)
"""What a request can raise besides the gateway's own errors."""


class SentOnce(aiohttp.ClientError):
    """The connection broke under a request that must not be sent twice."""


def as_gateway_error(error: Exception) -> GatewayError:
    """The gateway's error for one of `CAUGHT`."""
    if isinstance(error, GatewayError):
        return error
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return UpstreamTimeout("No connection to the upstream was made in time.")
    if isinstance(error, TimeoutError):
        return UpstreamTimeout("The upstream did not answer in time.")
    if isinstance(error, aiohttp.ClientConnectorError):
        return _not_connected(error)
    if isinstance(error, socket.gaierror):
        return UpstreamUnreachable("The upstream's host name cannot be resolved.")
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        return InvalidInput("The URL is not a usable http or https URL.")
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
        return UpstreamUnreachable("The TLS connection to the upstream failed.")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return UpstreamUnreachable("The outbound proxy refused the connection.")
    if isinstance(error, (aiohttp.ClientResponseError, aiohttp.ClientPayloadError)):
        return _unreadable(error)
    if isinstance(error, (aiohttp.ClientConnectionError, SentOnce, OSError)):
        return UpstreamUnreachable("The upstream closed the connection before its answer was complete.")
    if isinstance(error, ValueError):
        return InvalidInput("The request holds characters that HTTP does not allow.")
    return UpstreamUnreachable("The request to the upstream failed.")


def _not_connected(error: aiohttp.ClientConnectorError) -> GatewayError:
    if isinstance(error.os_error, AddressDenied):
        return BlockedAddress("The gateway's network policy does not allow the destination.")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return UpstreamUnreachable("The upstream's host name cannot be resolved.")
    if isinstance(error, aiohttp.ClientSSLError):
        return UpstreamUnreachable("The upstream's TLS certificate or handshake is not acceptable.")
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return UpstreamUnreachable("The outbound proxy accepts no connection.")
    return UpstreamUnreachable("The upstream accepts no connection.")


def _unreadable(error: aiohttp.ClientError) -> GatewayError:
    broken_off = isinstance(error.__cause__, (aiohttp.ClientConnectionError, ConnectionError))
    if isinstance(error, aiohttp.ClientPayloadError) and broken_off:
        return UpstreamUnreachable("The upstream closed the connection before its answer was complete.")
    return UpstreamMalformed("The upstream's answer is not well-formed HTTP, or ends too early.")

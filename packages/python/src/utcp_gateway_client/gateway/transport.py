"""The two ways to drive steps over httpx2: blocking, and async."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from os import PathLike
from typing import Any, Final, TypeVar

import httpx2

from utcp_gateway_client.gateway.exchange import Failure, Outcome, Reply, Send, Steps, Wait
from utcp_gateway_client.gateway.settings import KeyAuth, Settings, user_agent

T = TypeVar("T")
CONNECT_SECONDS: Final = 10.0
_STREAM_READ_SECONDS: Final = 60.0
_NOT_SENT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)
_OK: Final = 200


def client_options(
    settings: Settings,
    *,
    verify: ssl.SSLContext | str | PathLike[str] | bool,
    proxy: str | None,
    trust_env: bool,
    limits: httpx2.Limits | None,
) -> dict[str, Any]:
    """Return the arguments of an httpx2 client; raise ValueError for a file without certificates.

    Redirects are not followed: the key would go elsewhere.
    """
    options: dict[str, Any] = {
        "base_url": settings.url,
        "auth": KeyAuth(settings.key) if settings.key else None,
        "headers": {"User-Agent": user_agent()},
        "verify": _verification(verify),
        "proxy": proxy,
        "trust_env": trust_env,
        "follow_redirects": False,
    }
    if limits is not None:
        options["limits"] = limits
    return options


def _verification(verify: ssl.SSLContext | str | PathLike[str] | bool) -> ssl.SSLContext | bool:
    if isinstance(verify, ssl.SSLContext | bool):
        return verify
    try:
        return ssl.create_default_context(cafile=verify)
    except OSError:
        raise ValueError(f"The file {verify} has no certificates that can be read.") from None


class SyncTransport:
    """Drives steps with a blocking client."""

    def __init__(self, http: httpx2.Client) -> None:
        self.http = http

    def drive(self, steps: Steps[T]) -> T:
        """Return the result of the steps."""
        outcome: Outcome = None
        try:
            while True:
                step = steps.send(outcome)
                if isinstance(step, Wait):
                    time.sleep(step.seconds)
                    outcome = None
                else:
                    outcome = self._send(step)
        except StopIteration as ended:
            result: T = ended.value
            return result

    def _send(self, step: Send) -> Reply | Failure:
        try:
            response = self.http.send(_request(self.http, step), stream=True)
            if step.request.stream and response.status_code == _OK:
                return _reply(response, b"", connection=response)
            try:
                return _reply(response, response.read())
            finally:
                response.close()
        except httpx2.TransportError as error:
            return _failure(error)


class AsyncTransport:
    """Drives steps with an async client."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def drive(self, steps: Steps[T]) -> T:
        """Return the result of the steps."""
        outcome: Outcome = None
        try:
            while True:
                step = steps.send(outcome)
                if isinstance(step, Wait):
                    await asyncio.sleep(step.seconds)
                    outcome = None
                else:
                    outcome = await self._send(step)
        except StopIteration as ended:
            result: T = ended.value
            return result

    async def _send(self, step: Send) -> Reply | Failure:
        try:
            response = await self.http.send(_request(self.http, step), stream=True)
            if step.request.stream and response.status_code == _OK:
                return _reply(response, b"", connection=response)
            try:
                return _reply(response, await response.aread())
            finally:
                await response.aclose()
        except httpx2.TransportError as error:
            return _failure(error)


def read_parts(response: httpx2.Response) -> Iterator[bytes]:
    """Return the parts of a body as they arrive; raise GatewayUnreachable or GatewayTimeout."""
    try:
        yield from response.iter_bytes()
    except httpx2.TransportError as error:
        raise _failure(error).error() from None


async def read_parts_async(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Return the parts of a body as they arrive; raise GatewayUnreachable or GatewayTimeout."""
    try:
        async for part in response.aiter_bytes():
            yield part
    except httpx2.TransportError as error:
        raise _failure(error).error() from None


def _request(http: httpx2.Client | httpx2.AsyncClient, step: Send) -> httpx2.Request:
    request = step.request
    # Heartbeats come between the events of a stream.
    seconds = max(step.seconds, _STREAM_READ_SECONDS) if request.stream else step.seconds
    timeout = httpx2.Timeout(
        seconds, connect=min(CONNECT_SECONDS, seconds), pool=min(CONNECT_SECONDS, seconds)
    )
    return http.build_request(
        request.method, request.path, params=dict(request.query), headers=dict(step.headers),
        content=request.body, timeout=timeout,
    )  # fmt: skip


def _reply(response: httpx2.Response, body: bytes, connection: httpx2.Response | None = None) -> Reply:
    headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, body, connection)


def _failure(error: httpx2.TransportError) -> Failure:
    """Return what failed. The text of the exception names addresses at most, never a header."""
    sent = not isinstance(error, _NOT_SENT)
    what = "The connection to the gateway failed" if sent else "The gateway cannot be reached"
    timeout = isinstance(error, httpx2.TimeoutException)
    return Failure(f"{what}: {type(error).__name__}.", sent, timeout)

"""Servers on an event loop in a separate thread, for tests without one."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

from aiohttp import web

_SECONDS = 10


@contextmanager
def beside(serving: AbstractAsyncContextManager[str]) -> Iterator[str]:
    """Yield the URL that `serving` yields, which is entered and left on the other loop."""
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run() -> None:
        ended = asyncio.Event()
        try:
            async with serving as url:
                started.set_result((url, asyncio.get_running_loop(), ended))
                await ended.wait()
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    # `asyncio.run` cancels the remaining tasks at the end.
    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    # The time limit of the test ends what never starts.
    url, loop, ended = started.result()
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(_SECONDS)


@asynccontextmanager
async def web_server(
    application: web.Application, *, tls: ssl.SSLContext | None = None, port: int = 0, **options: Any
) -> AsyncIterator[str]:
    """Serve an aiohttp application on loopback and yield its base URL; `options` are those of its runner.

    `port` is a free one unless it is given. At its end requests have 0.1 s to complete, unless `shutdown_timeout` is given.
    """
    runner = web.AppRunner(application, access_log=None, **{"shutdown_timeout": 0.1, **options})
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_server(
    handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """Run a TCP server and yield its URL; at the end, open connections are cancelled with their tasks."""
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()

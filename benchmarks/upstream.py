"""The upstream: aiohttp on uvloop in a process of its own. `python -m benchmarks.upstream PORT`."""

import sys

import uvloop
from aiohttp import web

from benchmarks.shape import ANSWER, KEY, KEY_HEADER, manual


async def answer(request: web.Request) -> web.Response:
    """The same bytes always; 401 without the key, so that a call without its credential is noticed."""
    if request.headers.get(KEY_HEADER) != KEY:
        return web.Response(status=401)
    return web.Response(body=ANSWER, content_type="application/json")


async def utcp(request: web.Request) -> web.Response:
    """The manual for the UTCP client."""
    return web.Response(body=manual(server=f"http://{request.host}"), content_type="application/json")


def main() -> None:
    """Serve on 127.0.0.1 until killed."""
    application = web.Application()
    application.router.add_get("/utcp", utcp)
    application.router.add_get("/{rest:.*}", answer)
    loop = uvloop.new_event_loop()
    web.run_app(
        application,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        print=lambda *_: None,
        access_log=None,
        loop=loop,
    )


if __name__ == "__main__":
    main()

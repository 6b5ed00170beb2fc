"""The upstream: aiohttp on uvloop in a process of its own. `python -m benchmarks.upstream PORT`."""

import sys

import uvloop
from aiohttp import web

from benchmarks.shape import KEY, KEY_HEADER, RESPONSE_BODY, TOKEN, manual


async def respond(request: web.Request) -> web.Response:
    """The same bytes always; 401 without key or token, so that a call without its credential is noticed."""
    if request.headers.get(KEY_HEADER) != KEY and request.headers.get("Authorization") != f"Bearer {TOKEN}":
        return web.Response(status=401)
    if request.can_read_body:
        await request.read()
    return web.Response(body=RESPONSE_BODY, content_type="application/json")


async def utcp(request: web.Request) -> web.Response:
    """The manual for the UTCP client."""
    return web.Response(body=manual(server=f"http://{request.host}"), content_type="application/json")


async def token(_request: web.Request) -> web.Response:
    """A token of the client credentials grant."""
    return web.json_response({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})


async def traces(request: web.Request) -> web.Response:
    """Takes spans as an OpenTelemetry collector does, and forgets them."""
    await request.read()
    return web.Response(content_type="application/x-protobuf")


def main() -> None:
    """Serve on 127.0.0.1 until killed."""
    application = web.Application()
    application.router.add_get("/utcp", utcp)
    application.router.add_post("/token", token)
    application.router.add_post("/v1/traces", traces)
    application.router.add_get("/{rest:.*}", respond)
    application.router.add_post("/{rest:.*}", respond)
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

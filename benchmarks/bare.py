"""The baseline: a minimal proxy of this call with Starlette and aiohttp.

No key check, no validation, no records, no limits, no masking: JSON in, one upstream call, bytes out.
`python -m benchmarks.bare PORT UPSTREAM`, with the uvicorn flags of `utcp-gateway serve`.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.shape import KEY, KEY_HEADER


@asynccontextmanager
async def lifespan(_application: Starlette) -> AsyncIterator[dict[str, aiohttp.ClientSession]]:
    """One session for all calls."""
    async with aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield {"session": session}


async def call(request: Request) -> Response:
    """Pass one call on."""
    arguments = orjson.loads(await request.body())
    number = request.path_params["number"]
    url = f"{sys.argv[2]}/t{number}/items/{arguments.pop('id')}"
    async with request.state.session.get(url, params=arguments, headers={KEY_HEADER: KEY}) as response:
        body = await response.read()
        return Response(body, status_code=response.status, media_type=response.content_type)


application = Starlette(routes=[Route("/tools/{number}/call", call, methods=["POST"])], lifespan=lifespan)


def main() -> None:
    """Serve on 127.0.0.1 until killed."""
    uvicorn.run(
        application,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=True,
        timeout_keep_alive=75,
    )


if __name__ == "__main__":
    main()

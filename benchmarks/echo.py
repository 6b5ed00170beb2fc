"""The floor of an HTTP server in Python: parses each body as JSON and writes it again. It checks nothing.

`python -m benchmarks.echo PORT`, with the flags of `utcp-gateway serve`.
"""

import sys

import orjson
import uvicorn
from starlette.types import Receive, Scope, Send


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond to each request with its body."""
    if scope["type"] != "http":
        return
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    text = orjson.dumps(orjson.loads(body))
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def main() -> None:
    """Serve on 127.0.0.1 until killed."""
    uvicorn.run(
        application,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=True,
        timeout_keep_alive=75,
    )


if __name__ == "__main__":
    main()

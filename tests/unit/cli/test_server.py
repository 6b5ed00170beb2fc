"""The server of a process, where its stop would lose a request."""

import asyncio
import socket
from typing import Any

from app.cli.server import GatewayServer, build_server_config
from app.core.settings import Settings


async def _answering(scope: Any, _receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def test_connections_queued_at_a_closing_listener_are_served() -> None:
    config = build_server_config(_answering, Settings(_env_file=None), lifespan="off")
    config.load()
    server = GatewayServer(config, grace_seconds=0, shutdown_timeout=5)
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        queued = [socket.create_connection(address, timeout=10) for _ in range(3)]
        for one in queued:
            one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await server.accept_queued(listener)
    answers = await asyncio.gather(*(asyncio.to_thread(one.recv, 4096) for one in queued))
    assert [answer.split(b"\r\n")[0] for answer in answers] == [b"HTTP/1.1 204 No Content"] * 3
    for one in queued:
        one.close()

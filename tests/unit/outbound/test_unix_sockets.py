"""Unix sockets: only those that the operator allows, and only for the host localhost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from app.core.errors import BlockedAddress, UpstreamUnreachable
from app.outbound.destinations import denied_destination
from app.outbound.egress import EgressSettings
from app.outbound.guard import Guard
from app.outbound.http import Engine, OutboundRequest
from app.outbound.network import Address


@pytest.fixture
async def path(tmp_path: Path) -> AsyncIterator[str]:
    """A server on a Unix socket that echoes the head of each request."""

    async def echo(request: web.Request) -> web.Response:
        return web.json_response({"path": request.raw_path, "host": request.headers["Host"]})

    application = web.Application()
    application.router.add_get("/{rest:.*}", echo)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    socket_path = str(tmp_path / "api.sock")
    await web.UnixSite(runner, socket_path).start()
    yield socket_path
    await runner.cleanup()


@pytest.fixture
async def engine(path: str) -> AsyncIterator[Engine]:
    engine = Engine(Guard(unix_sockets=[path]))
    yield engine
    await engine.aclose()


async def get(engine: Engine, url: str, socket_path: str, *, scope: bytes = b"s") -> bytes:
    egress = EgressSettings(unix_socket=socket_path)
    response = await engine.request(OutboundRequest(method="GET", url=url, egress=egress, scope=scope))
    return await response.read(10_000)


async def test_requests_to_localhost_go_to_the_socket(engine: Engine, path: str) -> None:
    found = await get(engine, "http://localhost/v1/info?a=%20b", path)
    assert found == b'{"path": "/v1/info?a=%20b", "host": "localhost"}'


async def test_a_socket_that_is_not_allowed_is_not_connected_to(
    engine: Engine, path: str, tmp_path: Path
) -> None:
    link = tmp_path / "link.sock"
    link.symlink_to(path)
    for other in (str(link), f"{path}/../api.sock", "/run/docker.sock"):
        with pytest.raises(BlockedAddress):
            await get(engine, "http://localhost/", other)
        denied = await denied_destination(
            "http://localhost", engine.network, EgressSettings(unix_socket=other)
        )
        assert denied is not None
        assert (denied.setting, denied.entry) == ("UNIX_SOCKETS", other)
    allowed = await denied_destination("http://localhost", engine.network, EgressSettings(unix_socket=path))
    assert allowed is None


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "[::1]"])
async def test_other_hosts_are_checked_and_connected_to_as_ever(engine: Engine, path: str, host: str) -> None:
    with pytest.raises(BlockedAddress):
        await get(engine, f"http://{host}/", path)


async def test_without_the_option_localhost_is_an_address(engine: Engine) -> None:
    with pytest.raises(BlockedAddress):
        await engine.request(OutboundRequest(method="GET", url="http://localhost/"))


async def test_a_socket_without_server_is_unreachable(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.sock")
    engine = Engine(Guard(unix_sockets=[gone]))
    try:
        with pytest.raises(UpstreamUnreachable):
            await get(engine, "http://localhost/", gone)
    finally:
        await engine.aclose()


async def test_streams_of_other_protocols_use_the_socket_too(engine: Engine, path: str) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    egress = EgressSettings(unix_socket=path)
    address = Address("localhost", 80)
    async with await engine.network.open_stream(address, egress=egress, deadline=deadline) as stream:
        await stream.write(b"GET /raw HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert b'"/raw"' in await stream.reader.read()

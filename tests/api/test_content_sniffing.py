"""Each response of each interface says that browsers must not guess its media type, once."""

import asyncio
import base64
import os
import re
from urllib.parse import urlsplit

import httpx2
import pytest

from app.api.authorisation import iter_routes
from tests.harness.application import Application
from tests.harness.plain_http import WITHOUT_CERTIFICATES
from tests.harness.profiles import Applications

pytestmark = pytest.mark.time_limit(120)

FIELD = "x-content-type-options"


@pytest.fixture(scope="module")
async def application(applications: Applications) -> Application:
    return await applications.get()


def paths_of(application: Application) -> dict[str, set[str]]:
    """Return the methods of each path that is served, and of some that are not."""
    found: dict[str, set[str]] = {"/nothing": {"GET", "POST"}, "/%00": {"GET"}}
    for route in iter_routes(application.app.routes):
        path = getattr(route, "path", None)
        if path is not None:
            found.setdefault(path, set()).update(getattr(route, "methods", None) or {"GET"})
    return found


async def test_no_response_may_be_sniffed(application):
    admin, nobody = await application.client("admin"), await application.client()
    stranger = httpx2.AsyncClient(
        base_url=application.url, trust_env=False, verify=WITHOUT_CERTIFICATES, timeout=30
    )
    failed, statuses = [], set()

    async def ask(client: httpx2.AsyncClient, method: str, path: str) -> None:
        async with client.stream(method, path) as response:
            statuses.add(response.status_code)
            found = response.headers.get_list(FIELD)
        if found != ["nosniff"]:
            failed.append((method, path, response.status_code, found))

    async with stranger:
        for path, methods in paths_of(application).items():
            url = re.sub(r"\{[^}]*\}", "x", path)
            for method in sorted(methods | {"OPTIONS", "TRACE"}):
                await ask(stranger, method, url)
                # Whoever has a key reads; nobody changes anything.
                await ask(admin if method in ("GET", "HEAD") else nobody, method, url)
    assert not failed
    assert {200, 401, 404, 405} <= statuses


async def test_handshakes_of_websockets_may_not_be_sniffed_either(application):
    address = urlsplit(application.url)
    key = base64.b64encode(os.urandom(16)).decode()
    head = (
        f"GET /ubp HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
    )
    for request in (head + "\r\n", head.replace("Version: 13", "Version: 1") + "\r\n"):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(request.encode())
        response = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        assert response.lower().count(b"x-content-type-options: nosniff") == 1, response

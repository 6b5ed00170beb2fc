"""Connections belong to a provider and its credentials, and a call is attempted as often as its provider allows."""

import asyncio
import contextlib
import re

import pytest
from sqlalchemy import text

from app.catalog.feed import record_change

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Site:
    """Records on which connection each request arrived; a connection is closed after `carries` responses."""

    def __init__(self) -> None:
        self.url = ""
        self.carries = 1000
        self.connections = 0
        self.requests: list[tuple[str, int]] = []
        """Path and connection."""
        self.closing = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number, sent = self.connections, 0
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.closing += b"Connection: close" in head
                self.requests.append((head.split(b" ")[1].decode(), number))
                if sent >= self.carries:
                    break
                sent += 1
                writer.write(OK)
        writer.close()

    def connections_of(self, path: str) -> set[int]:
        """Those on which a path was requested."""
        return {number for found, number in self.requests if re.match(f"{path}(\\?|$)", found)}


@pytest.fixture
async def site():
    site = Site()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield site
    server.close()


async def keyed(api, site, provider_name, slot, *, options=None):
    """The path of a call of a tool that needs the credential in a slot."""
    provider = await api.provider(provider_name, options=options or {})
    origins = [site.url]
    await api.credential(provider, slot, "api_key", {"value": f"{provider_name}-{slot}"}, origins=origins)
    await api.tool(
        provider,
        slot,
        {"url": f"{site.url}/{provider_name}/{slot}"},
        security=[[{"slot": slot, "scopes": []}]],
    )
    return f"/tools/{provider_name}.{slot}/call"


async def called(client, path, times):
    for _ in range(times):
        response = await client.post(path, json={})
        assert response.status_code == 200, response.text


async def test_a_connection_carries_the_calls_of_one_provider_and_credential(api, site):
    first, other = await keyed(api, site, "one", "key"), await keyed(api, site, "two", "key")
    provider = await api.provider("three")
    for slot in ("a", "b"):
        await api.credential(provider, slot, "api_key", {"value": "x" * 12}, origins=[site.url])
        needs = [[{"slot": slot, "scopes": []}]]
        for number in (1, 2):
            await api.tool(provider, f"{slot}{number}", {"url": f"{site.url}/three/{slot}"}, security=needs)
    await api.tool(provider, "open", {"url": f"{site.url}/three/open"})
    client = await api.client()
    for _ in range(2):
        for path in (
            first,
            other,
            *(f"/tools/three.{name}/call" for name in ("a1", "a2", "b1", "b2", "open")),
        ):
            await called(client, path, 2)
    found = [site.connections_of(p) for p in ("/one/key", "/two/key", "/three/a", "/three/b", "/three/open")]
    assert all(len(connections) == 1 for connections in found)
    assert site.connections == 5
    assert site.closing == 0


async def test_a_new_version_of_a_credential_has_connections_of_its_own(api, site):
    path = await keyed(api, site, "one", "key")
    client = await api.client()
    await called(client, path, 2)
    before = (await api.services.catalog.plan("one.key")).scope
    provider_id = (await api.services.catalog.plan("one.key")).provider_id
    async with api.services.database.transaction() as session:
        await session.execute(
            text("UPDATE credentials SET version = 2, sealed = sealed WHERE provider_id = :id"),
            {"id": provider_id},
        )
        await record_change(session, kind="credential", provider_id=provider_id, object_id="key")
    await api.services.feed.catch_up()
    after = (await api.services.catalog.plan("one.key")).scope
    assert before != after
    assert b"one-key" not in before


async def test_without_reuse_each_call_has_a_connection_of_its_own(api, site):
    path = await keyed(api, site, "one", "key", options={"reuse": False})
    await called(await api.client(), path, 4)
    assert (site.connections, site.closing, len(site.requests)) == (4, 4, 4)


@pytest.mark.parametrize(("attempts", "status", "sent"), [(1, 502, 1), (2, 200, 2), (3, 200, 2)])
async def test_a_stale_connection_and_the_number_of_attempts(api, site, attempts, status, sent):
    site.carries = 1
    provider = await api.provider("one", limits={"attempts": attempts})
    await api.tool(provider, "read", {"url": f"{site.url}/read"})
    client = await api.client()
    await called(client, "/tools/one.read/call", 1)
    response = await client.post("/tools/one.read/call", json={})
    assert response.status_code == status
    assert len(site.requests) == 1 + sent
    newest = (await api.calls())[0]
    assert newest["attempts"] == sent


async def test_a_request_that_was_sent_twice_counts_as_two_attempts(api, site):
    # The first request of each connection is responded to; every other breaks it.
    site.carries = 1
    provider = await api.provider("one", limits={"attempts": 2})
    await api.tool(provider, "read", {"url": f"{site.url}/read"})
    client = await api.client()
    await called(client, "/tools/one.read/call", 1)
    site.carries = 0
    # The reused connection has carried one, and is closed; the new one carries none.
    response = await client.post("/tools/one.read/call", json={})
    assert response.status_code == 502
    assert len(site.requests) == 1 + 2

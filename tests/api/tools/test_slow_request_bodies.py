"""Calls whose request body arrives slowly or not completely."""

import asyncio
import contextlib

from app.calls.response.streams import StreamRegistry


@contextlib.asynccontextmanager
async def beginning(api, upstream):
    """A connection on which all of a call was sent but the last byte of its arguments."""
    provider = await api.provider("api")
    await api.tool(provider, "one", {"url": f"{upstream.url}/x"})
    client = await api.client()
    host, _, port = api.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST /tools/api.one/call HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\n"
        f"Authorization: {client.headers['authorization']}\r\n\r\n{{".encode()
    )
    await writer.drain()
    yield reader, writer
    writer.close()


async def test_a_client_that_stops_sending_gets_408(api, upstream):
    streams = StreamRegistry(api.services.engine.timers, api.services.stopping, stall=0.2)
    async with api.with_services(streams=streams) as impatient, beginning(impatient, upstream) as (reader, _):
        response = await reader.read()
    assert response.startswith(b"HTTP/1.1 408 ")
    assert b"client-timeout" in response
    call = await api.recorded_call()
    assert (call["outcome"], call["status"]) == ("client-timeout", 408)
    assert upstream.requests == []


async def test_a_client_that_disconnects_while_sending_is_recorded_as_cancelled(api, upstream):
    async with beginning(api, upstream) as (_, writer):
        writer.transport.abort()
        call = await api.recorded_call()
    assert (call["outcome"], call["status"]) == ("cancelled", 499)


async def test_a_client_that_sends_the_rest_in_time_gets_a_response(api, upstream):
    async with beginning(api, upstream) as (reader, writer):
        await asyncio.sleep(0.2)
        writer.write(b"}")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")

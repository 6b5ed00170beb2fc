"""Circuit breaker, bulkhead and retries, with real upstreams that fail."""

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, field

import pytest

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


def status(code, *headers):
    lines = "".join(f"{line}\r\n" for line in headers)
    return f"HTTP/1.1 {code} X\r\nContent-Length: 0\r\n{lines}\r\n".encode()


@dataclass
class Script:
    """An upstream that sends its `responses` in turn, the last one repeatedly, and counts what reaches it.

    A response is bytes, or "drop" (the request is read and executed, then the connection reset), "half" (dropped
    within the body) or "hang".
    """

    responses: list
    url: str = ""
    connections: int = 0
    executed: list = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.executed.append(head.split(b" ", 2)[0].decode())
                response = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
                if response == "hang":
                    await self.over.wait()
                if response == "half":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
                    await writer.drain()
                if not isinstance(response, bytes):
                    writer.transport.abort()
                    return
                writer.write(response)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def scripted():
    """`await scripted("drop", OK)` starts one."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(*responses):
            script = Script(list(responses))
            server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
            stack.callback(server.close)
            stack.callback(script.over.set)
            script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            return script

        yield start


@pytest.fixture
async def tool(api):
    """`await tool(url, method="POST", **limits)` stores `api.one` and gives a client."""

    async def make(url, *, method="GET", **limits):
        provider = await api.provider("api", limits=limits)
        await api.tool(provider, "one", {"url": f"{url}/x", "http_method": method})
        return await api.client()

    return make


def slug(response):
    return response.json()["type"].rpartition(":")[2]


async def call(client, **options):
    return await client.post("/tools/api.one/call", **options)


async def test_a_failing_upstream_opens_its_breaker_and_the_client_gets_a_problem(api, tool, scripted):
    dead = await scripted("drop")
    client = await tool(dead.url, method="POST")
    for _ in range(5):
        assert slug(await call(client)) == "upstream-unreachable"
    before = (dead.connections, len(dead.executed))
    rejected = [await call(client) for _ in range(20)]
    assert (dead.connections, len(dead.executed)) == before == (5, 5)
    assert {(response.status_code, slug(response)) for response in rejected} == {(503, "circuit-open")}
    assert 1 <= int(rejected[0].headers["Retry-After"]) <= 6
    assert rejected[0].headers["X-Call-Id"]
    assert (await api.calls())[0]["outcome"] == "circuit-open"


@pytest.mark.parametrize("code", [400, 401, 404, 409, 422, 429])
async def test_client_errors_never_open_the_breaker(tool, scripted, code):
    picky = await scripted(status(code))
    client = await tool(picky.url, method="POST")
    for _ in range(25):
        await call(client)
    assert len(picky.executed) == 25


@pytest.fixture
async def closed_port():
    """A URL at which no server listens."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return f"http://127.0.0.1:{port}"


RECOVERS = {
    "executed, then dropped": "drop",
    "dropped within the body": "half",
    "502": status(502),
    "503": status(503, "Retry-After: 0"),
    "504": status(504),
    "429": status(429),
}


@pytest.mark.parametrize("failure", RECOVERS.values(), ids=RECOVERS)
async def test_a_safe_tool_is_retried(api, tool, scripted, failure):
    shaky = await scripted(failure, OK)
    client = await tool(shaky.url)
    response = await call(client)
    assert (response.status_code, response.content) == (200, b"{}")
    # aiohttp sends a safe request once more by itself where a reused connection was closed; this one is new.
    assert shaky.executed == ["GET", "GET"]


async def test_an_event_stream_that_has_begun_is_not_requested_again(api, scripted):
    begun = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99\r\n\r\nid: 1\ndata: 1\n\n"
    )
    shaky = await scripted(begun, "drop")
    provider = await api.provider("api")
    await api.tool(
        provider, "one", {"call_template_type": "sse", "url": f"{shaky.url}/x", "reconnect": False}
    )
    response = await call(await api.client(), headers={"X-Timeout-Ms": "2000"})
    assert response.status_code >= 500
    assert shaky.executed == ["GET"]


@pytest.mark.parametrize("failure", RECOVERS.values(), ids=RECOVERS)
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_an_unsafe_request_that_may_have_been_executed_is_not_retried(tool, scripted, method, failure):
    shaky = await scripted(failure, OK)
    client = await tool(shaky.url, method=method)
    response = await call(client)
    assert response.status_code in (429, 502)
    assert shaky.executed == [method]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_provider_may_allow_retries_of_idempotent_methods(tool, scripted, method):
    shaky = await scripted("drop", OK)
    client = await tool(shaky.url, method=method, retry_idempotent=True)
    assert (await call(client)).status_code == 200
    assert shaky.executed == [method, method]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_methods_that_are_not_idempotent_are_never_retried(tool, scripted, method):
    shaky = await scripted("drop", OK)
    client = await tool(shaky.url, method=method, retry_idempotent=True)
    assert (await call(client)).status_code == 502
    assert shaky.executed == [method]


async def test_an_unsent_request_is_retried_whatever_the_method(api, tool, closed_port):
    before = set(api.services.origins)
    client = await tool(closed_port, method="POST")
    rejected = await call(client)
    assert (rejected.status_code, slug(rejected)) == (502, "upstream-unreachable")
    (origin,) = set(api.services.origins) - before
    assert (origin.budget.calls, origin.budget.spent) == (1, 1)


@pytest.mark.parametrize("code", [400, 404, 409, 500, 501])
async def test_other_responses_are_not_retried(tool, scripted, code):
    plain = await scripted(status(code))
    client = await tool(plain.url)
    await call(client)
    assert plain.executed == ["GET"]


async def test_a_retry_after_is_waited_for(api, tool, scripted):
    busy = await scripted(status(503, "Retry-After: 1"), OK)
    client = await tool(busy.url)
    assert (await call(client)).status_code == 200
    record = (await api.calls())[0]
    assert record["attempts"] == 2
    assert record["duration_ms"] >= 1000


@pytest.mark.parametrize(
    ("seconds", "headers"), [("30", {}), ("2", {"X-Timeout-Ms": "1500"})], ids=["too long", "deadline"]
)
async def test_a_retry_after_that_cannot_be_waited_for_is_passed_to_the_client(
    tool, scripted, seconds, headers
):
    busy = await scripted(status(503, f"Retry-After: {seconds}"), OK)
    client = await tool(busy.url)
    response = await call(client, headers=headers)
    assert (response.status_code, response.headers["Retry-After"]) == (502, seconds)
    assert busy.executed == ["GET"]


async def test_retries_are_bounded_and_can_be_turned_off(tool, scripted):
    down = await scripted(status(503))
    client = await tool(down.url, attempts=1)
    await call(client)
    assert down.executed == ["GET"]


async def test_an_upstream_that_always_fails_gets_at_most_a_tenth_more_calls(tool, scripted):
    down = await scripted(status(503))
    client = await tool(down.url, breaker_failures=0)
    offered = 300
    limit = asyncio.Semaphore(20)

    async def one():
        async with limit:
            return (await call(client)).status_code

    assert set(await asyncio.gather(*(one() for _ in range(offered)))) == {502}
    assert offered < len(down.executed) <= 1.1 * offered


async def test_a_probe_closes_the_breaker_again(api, tool, scripted):
    shaky = await scripted("drop", "drop", "drop", "drop", "drop", OK)
    client = await tool(shaky.url, method="POST")
    for _ in range(6):
        response = await call(client)
    assert slug(response) == "circuit-open"
    async with asyncio.timeout(15):
        while (response := await call(client)).status_code != 200:
            assert slug(response) == "circuit-open"
            await asyncio.sleep(0.05)
    assert (await call(client)).status_code == 200
    assert len(shaky.executed) == 7


async def test_a_slow_upstream_takes_its_own_permits_only(api, scripted, upstream):
    hanging = await scripted("hang")
    slow = await api.provider("slow", limits={"concurrency": 2, "total": 20})
    await api.tool(slow, "one", {"url": f"{hanging.url}/x"})
    await api.tool(await api.provider("fine"), "one", {"url": f"{upstream.url}/x"})
    client = await api.client()
    stuck = [asyncio.create_task(client.post("/tools/slow.one/call")) for _ in range(4)]
    async with asyncio.timeout(15):
        while len(hanging.executed) < 2:  # noqa: ASYNC110 - there is no event for it.
            await asyncio.sleep(0.01)
        fine = await asyncio.gather(*(client.post("/tools/fine.one/call") for _ in range(20)))
        assert {response.status_code for response in fine} == {200}
        rejected = [await ended for ended in itertools.islice(asyncio.as_completed(stuck), 2)]
    assert [(response.status_code, slug(response)) for response in rejected] == [(503, "origin-busy")] * 2
    assert hanging.connections == 2
    for task in stuck:
        task.cancel()
    await asyncio.wait(stuck)
    await permits_are_free(api)


async def permits_are_free(api):
    """Wait until every permit of every origin is free."""
    for _ in range(100):
        if not any(origin.bulkhead.running or origin.bulkhead.waiting for origin in api.services.origins):
            return
        await asyncio.sleep(0.05)
    raise AssertionError([(one.bulkhead.running, one.providers) for one in api.services.origins])


async def test_a_stream_holds_its_permit_until_its_end(api, upstream):
    provider = await api.provider("api", limits={"concurrency": 1})
    await api.tool(provider, "drip", {"url": f"{upstream.url}/drip?count=30&pause=0.1"})
    await api.tool(provider, "one", {"url": f"{upstream.url}/x"})
    client = await api.client()
    async with client.stream("POST", "/tools/api.drip/call") as response:
        assert response.status_code == 200
        assert slug(await call(client)) == "origin-busy"
    # The client has disconnected before the end of the stream.
    await permits_are_free(api)
    assert (await call(client)).status_code == 200


async def test_a_truncated_body_counts_against_the_upstream(api, upstream):
    provider = await api.provider("api")
    await api.tool(provider, "one", {"url": f"{upstream.url}/broken?length=1000000"})
    client = await api.client()
    await asyncio.gather(*(call(client) for _ in range(20)), return_exceptions=True)
    assert slug(await call(client)) == "circuit-open"


async def test_hundreds_of_cancelled_calls_release_every_permit(api, upstream):
    before = set(api.services.origins)
    provider = await api.provider("api", limits={"concurrency": 10})
    for name, path in (("late", "/slow"), ("drip", "/drip?pause=0.01"), ("one", "/x")):
        await api.tool(provider, name, {"url": upstream.url + path})
    client = await api.client()
    assert (await call(client)).status_code == 200
    (origin,) = set(api.services.origins) - before
    names = ["late", "drip", "one", "late"]
    for start in range(0, 200, 50):
        tasks = [
            asyncio.create_task(client.post(f"/tools/api.{names[number % 4]}/call"))
            for number in range(start, start + 50)
        ]
        async with asyncio.timeout(30):
            while origin.bulkhead.running < 10:  # noqa: ASYNC110 - there is no event for it.
                await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await permits_are_free(api)
    assert origin.breaker.state == "closed"
    assert (await call(client)).status_code == 200
    assert api.services.metrics.calls_in_flight == 0

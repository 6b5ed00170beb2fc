"""`calls.execute`, called as an interface without HTTP would: real services, and an upstream in the same loop."""

import asyncio
from uuid import uuid4

import pytest
from aiohttp import web

from app.calls import CallRequest, ClientDisconnected, describe, execute
from app.calls.idempotency.call import ReplayedError
from app.calls.options import CallOptions
from app.catalog.feed import ChangeNotice
from app.core.errors import (
    IdempotencyNotStored,
    InvalidArguments,
    LoopDetected,
    NotFound,
    RateLimited,
    TooLarge,
    UpstreamRejected,
)
from app.core.rate_limit import RateLimit
from app.core.settings import Settings
from app.core.telemetry.metrics import Metrics
from app.security.principal import Principal
from app.security.vault import KeyRing
from app.services import open_services
from app.storage.models import TENANT
from tests.harness.cases import for_each
from tests.stored import clear, store_provider, store_tool

INTERFACE = "test"
INPUTS = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}


class Site:
    """An upstream that counts what it did."""

    def __init__(self) -> None:
        self.url = ""
        self.numbers: list[int] = []
        self.started = asyncio.Event()
        self.left = asyncio.Event()
        self.gate: asyncio.Event | None = None
        self.padding = ""

    async def act(self, request: web.Request) -> web.StreamResponse:
        number = (await request.json())["n"] if request.can_read_body else 0
        self.numbers.append(number)
        self.started.set()
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise
        return web.json_response({"n": number, "calls": len(self.numbers), "padding": self.padding})

    async def reject(self, request: web.Request) -> web.StreamResponse:
        self.numbers.append(0)
        return web.json_response({"detail": "no"}, status=409)

    async def ticks(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(3):
            await response.write(b"data: %d\n\n" % number)
        return response


@pytest.fixture
async def site():
    site = Site()
    application = web.Application()
    application.router.add_post("/act", site.act)
    application.router.add_post("/reject", site.reject)
    application.router.add_post("/ticks", site.ticks)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield site
    await runner.cleanup()


@pytest.fixture(scope="module")
async def services(database_url, redis_url):
    settings = Settings(
        _env_file=None,
        database_url=database_url,
        redis_url=redis_url,
        sealing_keys=KeyRing.generate("test"),
        allow_networks=("127.0.0.0/8",),
        idempotency_max_response_bytes=1024,
        log_level="error",
    )
    async with open_services(settings, Metrics()) as services:
        yield services


@pytest.fixture
async def tools(services, site):
    """The tools p.act, p.reject and p.ticks of the upstream."""
    await clear(services.database)
    provider = await store_provider(services.database, "p")
    for name in ("act", "reject", "ticks"):
        template = {
            "call_template_type": "sse" if name == "ticks" else "http",
            "http_method": "POST",
            "url": f"{site.url}/{name}",
            "body_field": "body",
        }
        inputs = {"type": "object", "properties": {"body": INPUTS}}
        await store_tool(services.database, provider, name, call_template=template, inputs=inputs)
    await services.feed.catch_up()
    await services.catalog.on_changes([ChangeNotice("all")])


def principal(**fields) -> Principal:
    usual = {"key_id": "k", "name": "k", "tenant_id": TENANT, "scopes": frozenset({"tools:call"})}
    return Principal(**(usual | fields))


def request(tool="p.act", n=1, *, who=None, **fields) -> CallRequest:
    return CallRequest(who or principal(), tool, INTERFACE, arguments={"body": {"n": n}}, **fields)


async def recorded(services, call_id):
    """The row of the call in the call log: outcome, status, interface's sizes."""
    await services.call_log.flush()
    async with services.database.read_session() as session:
        connection = await session.connection()
        found = await connection.exec_driver_sql(
            "SELECT outcome, status, request_bytes, response_bytes, attempts, key_id FROM calls WHERE id = $1",
            (call_id,),
        )
        return found.one()


@pytest.mark.usefixtures("tools")
class TestOneCall:
    async def test_a_result_is_whole_and_recorded(self, services) -> None:
        outcome = await execute(request(n=7), services.calls)
        assert (outcome.status, outcome.error, outcome.replayed) == (200, None, False)
        assert outcome.result.status == 200
        body = await outcome.result.read()
        assert body == b'{"n": 7, "calls": 1, "padding": ""}'
        row = await recorded(services, outcome.call_id)
        assert tuple(row) == ("ok", 200, len(b'{"body":{"n":7}}'), len(body), 1, "k")
        assert services.metrics.calls_in_flight == 0

    @for_each(
        ("changes", "error", "status"),
        [
            ({"tool": "p.unknown"}, NotFound, 404),
            ({"tool": "no such name!"}, NotFound, 404),
            ({"n": "text"}, InvalidArguments, 422),
            ({"tool": "p.reject"}, UpstreamRejected, 409),
            ({"who": principal(providers=frozenset({"other"}))}, NotFound, 404),
        ],
    )
    async def test_an_error_is_the_outcome_and_recorded(self, services, changes, error, status) -> None:
        outcome = await execute(request(**changes), services.calls)
        assert outcome.result is None
        assert isinstance(outcome.error, error)
        assert outcome.status == status
        row = await recorded(services, outcome.call_id)
        assert (row.outcome, row.status) == (outcome.error.slug, status)

    async def test_a_call_that_was_here_before_is_rejected(self, services, site) -> None:
        outcome = await execute(
            request(options=CallOptions(cdn_loop=services.identity.encode())), services.calls
        )
        assert isinstance(outcome.error, LoopDetected)
        assert site.numbers == []

    async def test_errors_of_reading_the_request_are_recorded(self, services) -> None:
        unread = CallRequest(principal(), "p.act", INTERFACE, error=TooLarge("Too many bytes."))
        outcome = await execute(unread, services.calls)
        assert isinstance(outcome.error, TooLarge)
        assert (await recorded(services, outcome.call_id)).outcome == "too-large"

    async def test_rate_limits_are_counted_and_their_state_comes_back(self, services) -> None:
        who = principal(key_id=uuid4().hex, rate_limit=RateLimit(1, 3600, 1))
        first = await execute(request(who=who), services.calls)
        second = await execute(request(who=who), services.calls)
        assert first.rate_limit_state.headers()["RateLimit-Remaining"] == "0"
        assert isinstance(second.error, RateLimited)
        assert second.status == 429

    async def test_the_deadline_of_the_client_bounds_the_call(self, services, site) -> None:
        site.gate = asyncio.Event()
        # On a busy machine a short deadline passes before the upstream has the request.
        for seconds in (0.2, 2, 20):
            deadline = asyncio.get_running_loop().time() + seconds
            outcome = await execute(request(deadline=deadline), services.calls)
            assert outcome.error.slug in ("upstream-timeout", "deadline-exceeded")
            if site.started.is_set():
                break
        assert outcome.error.slug == "upstream-timeout"
        await site.left.wait()

    async def test_a_description_sends_and_records_nothing(self, services, site) -> None:
        described = await describe(request(), services.calls)
        assert described["url"] == f"{site.url}/act"
        assert site.numbers == []
        with pytest.raises(NotFound):
            await describe(request("p.unknown"), services.calls)


@pytest.mark.usefixtures("tools")
class TestIdempotencyKeys:
    async def test_the_stored_result_is_replayed(self, services, site) -> None:
        key = uuid4().hex
        first = await execute(request(options=CallOptions(idempotency_key=key)), services.calls)
        second = await execute(request(options=CallOptions(idempotency_key=key)), services.calls)
        assert (first.replayed, second.replayed) == (False, True)
        assert second.call_id == first.call_id
        assert await second.result.read() == await first.result.read()
        assert (second.result.status, second.result.media_type) == (200, first.result.media_type)
        assert site.numbers == [1]

    async def test_the_stored_error_is_replayed(self, services, site) -> None:
        key = uuid4().hex
        first = await execute(request("p.reject", options=CallOptions(idempotency_key=key)), services.calls)
        second = await execute(request("p.reject", options=CallOptions(idempotency_key=key)), services.calls)
        assert isinstance(second.error, ReplayedError)
        assert (second.status, second.error.slug) == (409, first.error.slug)
        assert second.replayed
        assert site.numbers == [0]

    @pytest.mark.parametrize("size", [2_000, 500_000])
    async def test_a_result_that_is_too_large_is_passed_on_once(self, services, site, size) -> None:
        key = uuid4().hex
        site.padding = "x" * size
        first = await execute(request(options=CallOptions(idempotency_key=key)), services.calls)
        assert size < len(await first.result.read()) < size + 100
        first.complete(upstream_status=200, response_bytes=size)
        assert (await recorded(services, first.call_id)).outcome == "ok"
        second = await execute(request(options=CallOptions(idempotency_key=key)), services.calls)
        assert isinstance(second.error, IdempotencyNotStored)
        assert site.numbers == [1]


@pytest.mark.usefixtures("tools")
class TestEvents:
    async def test_events_are_read_by_the_interface_which_completes_the_call(self, services) -> None:
        outcome = await execute(request("p.ticks", accepts_events=True), services.calls)
        data = [event.data async for event in outcome.result.events]
        assert data == [b"0", b"1", b"2"]
        assert services.metrics.calls_in_flight == 1
        outcome.complete(upstream_status=outcome.result.status, response_bytes=3)
        await outcome.result.aclose()
        assert (await recorded(services, outcome.call_id)).response_bytes == 3
        assert services.metrics.calls_in_flight == 0

    async def test_an_interface_that_takes_no_events_gets_a_body(self, services) -> None:
        outcome = await execute(request("p.ticks"), services.calls)
        assert outcome.result.events is None
        assert await outcome.result.read()

    async def test_a_broken_off_response_is_recorded_as_failed(self, services) -> None:
        outcome = await execute(request("p.ticks", accepts_events=True), services.calls)
        await outcome.result.aclose()
        await outcome.conclude_failed(ClientDisconnected(), upstream_status=200)
        row = await recorded(services, outcome.call_id)
        assert (row.outcome, row.status) == ("cancelled", 499)


@pytest.mark.usefixtures("tools")
class TestClientsThatLeave:
    async def test_the_call_ends_when_its_client_leaves(self, services, site) -> None:
        site.gate = asyncio.Event()
        outcome = await execute(request(disconnected=site.started.wait), services.calls)
        assert isinstance(outcome.error, ClientDisconnected)
        assert outcome.status == 499
        await site.left.wait()
        assert (await recorded(services, outcome.call_id)).outcome == "cancelled"

    async def test_with_an_idempotency_key_it_goes_on(self, services, site) -> None:
        site.gate = asyncio.Event()
        key = uuid4().hex
        first = await execute(
            request(options=CallOptions(idempotency_key=key), disconnected=site.started.wait), services.calls
        )
        assert isinstance(first.error, ClientDisconnected)
        site.gate.set()
        while len(services.calls.idempotency):  # noqa: ASYNC110 - nobody tells.
            await asyncio.sleep(0.01)
        second = await execute(request(options=CallOptions(idempotency_key=key)), services.calls)
        assert second.replayed
        assert second.status == 200
        assert (await recorded(services, first.call_id)).outcome == "ok"

    async def test_a_cancellation_from_elsewhere_is_raised_and_recorded(self, services, site) -> None:
        site.gate = asyncio.Event()
        calling = asyncio.create_task(execute(request(), services.calls))
        await site.started.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert services.metrics.calls_in_flight == 0

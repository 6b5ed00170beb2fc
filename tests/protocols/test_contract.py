"""One contract for all adapters, against real upstreams of each protocol."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from app.core.errors import (
    BlockedAddress,
    GatewayError,
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamError,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from app.outbound.guard import Guard, literal_addresses
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.base import AdapterContext, ChecksUpstream, Result, SendsOnce
from app.protocols.registry import PROTOCOLS, Adapters
from app.security.masking import Masker
from tests.faults.proxy import FaultProxy, Toxic
from tests.harness.cases import for_each
from tests.harness.hosts import HOSTS
from tests.protocols.calling import call_of
from tests.protocols.kits.all import KITS, settings
from tests.protocols.kits.base import HUGE, Kit, Upstream
from tests.protocols.kits.ubp import COMMANDS

CANARY = "canary-of-the-contract-4711"
HOSTILE = [
    "${HOME}", "$HOME", "UTCP_ARG_word_UTCP_ARG", "a\r\nX-Injected: 1", "a\x00b", "../../etc/passwd", "..", "; id",
    "$(id)", "`id`", "| id", "--help", "-rf", "' OR 1=1 --", '"}, {"x": "', "{{7*7}}", "%0d%0aX: 1", "é\u202e\u0000",
    "a" * 5000, "\u2028", "&x=1", "#", "?", "{word}", "\\x00", "\n",
]  # fmt: skip
WITHOUT_LINK = {"udp", "cli", "webrtc", "text", "file", "ubp", "filesystem"}
SEVERAL = pytest.mark.parametrize("kit", KITS, ids=lambda kit: kit.protocol)
# The protocols with an exchange of their own, before any tool is called.
CHECKED = pytest.mark.parametrize(
    "kit",
    [kit for kit in KITS if kit.protocol in {"graphql", "grpc", "mcp", "websocket"}],
    ids=lambda kit: kit.protocol,
)


def with_case(*cases: str) -> Any:
    able = [kit for kit in KITS if set(cases) <= kit.cases]
    return pytest.mark.parametrize("kit", able, ids=lambda kit: kit.protocol)


@pytest.fixture
def masker() -> Masker:
    masker = Masker()
    masker.add(CANARY)
    return masker


@pytest.fixture
async def adapters(engine: Engine, masker: Masker) -> AsyncIterator[Any]:
    built = Adapters(AdapterContext(engine, engine.network, masker, settings(), COMMANDS))
    yield built
    await built.aclose()


@pytest.fixture
async def adapters_without_probation(masker: Masker) -> AsyncIterator[Any]:
    """Adapters that reuse a connection at once, so that calls one after the other leave one open."""
    engine = Engine(Guard(allow_networks=["127.0.0.0/8"]), probation=0)
    built = Adapters(AdapterContext(engine, engine.network, masker, settings(), COMMANDS))
    yield built
    await built.aclose()
    await engine.aclose()


async def whole(result: Result) -> bytes:
    try:
        return await result.read()
    finally:
        await result.aclose()


def test_every_adapter_has_a_kit() -> None:
    assert set(PROTOCOLS) == {kit.protocol for kit in KITS}


@with_case("echo")
async def test_a_call_sends_the_arguments_and_returns_the_response(
    kit: Kit, upstream: Upstream, adapters
) -> None:
    adapter = adapters[kit.protocol]
    arguments = kit.arguments()
    result = await adapter.call(call_of(adapter, kit.template(upstream, "echo"), arguments))
    assert kit.echoed(await whole(result)) == arguments
    assert result.status == 200


@with_case("echo")
async def test_the_response_is_an_event_where_events_are_requested(
    kit: Kit, upstream: Upstream, adapters
) -> None:
    adapter = adapters[kit.protocol]
    call = call_of(adapter, kit.template(upstream, "echo"), kit.arguments(), streaming=True)
    result = await adapter.call(call)
    assert result.events is not None
    events = [event async for event in result.events]
    await result.aclose()
    assert kit.echoed(b"".join(event.data for event in events)) == kit.arguments()


@with_case("unreachable")
async def test_a_port_without_a_listener_is_unreachable(kit: Kit, upstream: Upstream, adapters) -> None:
    adapter = adapters[kit.protocol]
    with pytest.raises(UpstreamUnreachable) as caught:
        await adapter.call(call_of(adapter, kit.template(upstream, "unreachable"), kit.arguments()))
    assert not caught.value.request_sent


@with_case("silent")
async def test_an_upstream_that_is_silent_is_left_at_the_deadline(
    kit: Kit, upstream: Upstream, adapters
) -> None:
    adapter = adapters[kit.protocol]
    # A program has to start before it can be silent.
    seconds = 5 if kit.protocol in ("cli", "mcp") else 1
    call = call_of(adapter, kit.template(upstream, "silent"), kit.arguments(), seconds=seconds)
    with pytest.raises(UpstreamTimeout) as caught:
        await whole(await adapter.call(call))
    assert caught.value.request_sent
    async with asyncio.timeout(30):
        # The upstream itself would be silent for a minute.
        await upstream.gone.wait()


@with_case("breaks")
async def test_a_response_that_breaks_off_is_an_error(kit: Kit, upstream: Upstream, adapters) -> None:
    adapter = adapters[kit.protocol]
    with pytest.raises((UpstreamUnreachable, UpstreamMalformed)) as caught:
        await whole(await adapter.call(call_of(adapter, kit.template(upstream, "breaks"), kit.arguments())))
    assert caught.value.request_sent


@with_case("huge")
async def test_a_response_above_the_limit_is_rejected(kit: Kit, upstream: Upstream, adapters) -> None:
    adapter = adapters[kit.protocol]
    limits = Limits(response_bytes=HUGE // 3, event_bytes=HUGE // 3)
    with pytest.raises(ResponseTooLarge):
        await whole(
            await adapter.call(
                call_of(adapter, kit.template(upstream, "huge"), kit.arguments(), limits=limits)
            )
        )


@with_case("rejects")
async def test_what_the_upstream_rejects_says_why(kit: Kit, upstream: Upstream, adapters) -> None:
    adapter = adapters[kit.protocol]
    with pytest.raises(UpstreamRejected) as caught:
        await whole(await adapter.call(call_of(adapter, kit.template(upstream, "rejects"), kit.arguments())))
    assert caught.value.response is not None
    assert caught.value.response.body


@with_case("silent")
async def test_cancelling_ends_the_upstreams_work(kit: Kit, upstream: Upstream, adapters) -> None:
    adapter = adapters[kit.protocol]
    template = kit.template(upstream, "silent")

    async def call() -> None:
        await whole(await adapter.call(call_of(adapter, template, kit.arguments())))

    calling = asyncio.create_task(call())
    await asyncio.sleep(1)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    async with asyncio.timeout(10):
        await upstream.gone.wait()


@with_case("endless")
async def test_events_come_before_the_response_ends(kit: Kit, upstream: Upstream, adapters) -> None:
    adapter = adapters[kit.protocol]
    call = call_of(adapter, kit.template(upstream, "endless"), kit.arguments(), streaming=True)
    result = await adapter.call(call)
    assert result.events is not None
    events = aiter(result.events)
    # The response has no end, so that an event that is read came before it.
    first, second = await anext(events), await anext(events)
    assert first.data != b""
    assert second.data != b""
    await events.aclose()
    await result.aclose()
    async with asyncio.timeout(30):
        await upstream.gone.wait()


@with_case("stream")
async def test_every_event_of_a_stream_is_passed_on_in_order(kit: Kit, upstream: Upstream, adapters) -> None:
    adapter = adapters[kit.protocol]
    call = call_of(adapter, kit.template(upstream, "stream"), kit.arguments(), streaming=True)
    result = await adapter.call(call)
    assert result.events is not None
    numbers = [orjson.loads(event.data)["n"] async for event in result.events]
    await result.aclose()
    assert numbers == [0, 1, 2]


@with_case("stream")
async def test_all_pieces_of_a_stream_are_one_response_where_events_are_not_requested(
    kit: Kit, upstream: Upstream, adapters
) -> None:
    adapter = adapters[kit.protocol]
    result = await adapter.call(call_of(adapter, kit.template(upstream, "stream"), kit.arguments()))
    body = await whole(result)
    lines = (
        orjson.loads(body) if body.startswith(b"[") else [orjson.loads(line) for line in body.splitlines()]
    )
    assert [line["n"] for line in lines] == [0, 1, 2]


@with_case("endless")
async def test_a_client_that_reads_nothing_slows_the_upstream_down(
    kit: Kit, upstream: Upstream, adapters
) -> None:
    adapter = adapters[kit.protocol]
    call = call_of(adapter, kit.template(upstream, "endless"), kit.arguments(), streaming=True)
    result = await adapter.call(call)
    assert result.events is not None
    events = aiter(result.events)
    await anext(events)
    level, sent = 0, -1
    async with asyncio.timeout(30):
        # It stands still once every buffer on the way is full.
        while level < 5:
            level = level + 1 if upstream.sent == sent else 0
            sent = upstream.sent
            await asyncio.sleep(0.2)
    await anext(events)
    await events.aclose()
    await result.aclose()
    async with asyncio.timeout(10):
        await upstream.gone.wait()


@with_case("endless")
async def test_an_endless_stream_is_bounded_where_events_are_not_requested(
    kit: Kit, upstream: Upstream, adapters
) -> None:
    adapter = adapters[kit.protocol]
    call = call_of(
        adapter, kit.template(upstream, "endless"), kit.arguments(), limits=Limits(response_bytes=1 << 20)
    )
    with pytest.raises((ResponseTooLarge, UpstreamTimeout)):
        await whole(await adapter.call(call))
    async with asyncio.timeout(10):
        await upstream.gone.wait()


@with_case("echo")
async def test_hostile_arguments_arrive_as_they_are_or_are_rejected(
    kit: Kit, upstream: Upstream, adapters
) -> None:
    adapter = adapters[kit.protocol]
    template = kit.template(upstream, "echo")
    for text in HOSTILE:
        arguments = _with_text(kit.arguments(), text)
        try:
            result = await adapter.call(call_of(adapter, template, arguments))
            assert kit.echoed(await whole(result)) == arguments, text
        except (InvalidArguments, InvalidInput):
            # Only what the protocol cannot carry.
            assert "\x00" in text or "\u0000" in text or "\n" in text or ".." in text, text
    assert not any("x-injected" in seen for seen in upstream.seen)


def _with_text(arguments: Any, text: str) -> Any:
    if isinstance(arguments, dict):
        return {
            key: text if key == "word" else _with_text(value, text) if isinstance(value, dict) else value
            for key, value in arguments.items()
        }
    return arguments


@SEVERAL
async def test_credentials_stand_in_their_places_and_nowhere_else(
    kit: Kit, upstream: Upstream, adapters
) -> None:
    adapter = adapters[kit.protocol]
    for place in kit.places:
        wire = kit.placed(place, CANARY)
        call = call_of(adapter, kit.template(upstream, "echo"), kit.arguments(), credentials=(wire,))
        shown = orjson.dumps(adapter.describe(call), default=str).decode()
        assert CANARY not in shown
        assert "***" in shown
        assert CANARY not in repr(call)
        await whole(await adapter.call(call))
        assert kit.found(upstream.seen[-1], place) == CANARY, place
        if "rejects" in kit.cases:
            rejected = call_of(
                adapter, kit.template(upstream, "rejects"), kit.arguments(), credentials=(wire,)
            )
            with pytest.raises(UpstreamError) as caught:
                await whole(await adapter.call(rejected))
            assert CANARY not in f"{caught.value!r} {caught.value.as_problem()} {caught.value.headers}"


@SEVERAL
async def test_no_spelling_of_an_inner_address_is_called(kit: Kit, masker: Masker) -> None:
    engine = Engine(Guard())
    adapter = Adapters(AdapterContext(engine, engine.network, masker, settings(), COMMANDS))[kit.protocol]
    limits = Limits(connect=10, first_byte=10, total=10)
    tried = 0
    for host in HOSTS:
        # 0127.0.0.1 is 87.0.0.1 to a resolver, which is as public as any.
        if any(Guard().allows(address, 443) for address in literal_addresses(host)):
            continue
        for template in kit.addresses(host):
            tried += 1
            for action in (adapter.discover, adapter.call):
                with pytest.raises(GatewayError) as caught:  # noqa: PT012 - either may refuse it.
                    call = call_of(adapter, template, kit.arguments(), limits=limits, seconds=10)
                    await action(call)
                assert isinstance(caught.value, InvalidInput | BlockedAddress | UpstreamUnreachable), host
                if isinstance(caught.value, UpstreamUnreachable):
                    assert not caught.value.request_sent
    await adapter.aclose()
    await engine.aclose()
    assert tried == 0 or tried >= 100


@pytest.mark.parametrize("kit", [kit for kit in KITS if kit.discovers], ids=lambda kit: kit.protocol)
async def test_discovery_finds_the_tools(kit: Kit, upstream: Upstream, adapters) -> None:
    adapter = adapters[kit.protocol]
    found = await adapter.discover(call_of(adapter, kit.discovery(upstream)))
    names = [tool["name"] for tool in orjson.loads(found.raw)["tools"]]
    assert any(name == "echo" or name.rpartition(".")[2].lower() == "echo" for name in names)


@CHECKED
async def test_a_check_of_the_protocol_calls_no_tool(kit: Kit, upstream: Upstream, adapters) -> None:
    adapter = adapters[kit.protocol]
    assert isinstance(adapter, ChecksUpstream)
    # A call of this tool would get no response.
    call = call_of(adapter, kit.template(upstream, "silent"), kit.arguments(), seconds=10)
    await adapter.check(call)


@SEVERAL
async def test_the_origin_is_fixed_and_the_kind_of_call_is_known(
    kit: Kit, upstream: Upstream, adapters
) -> None:
    adapter = adapters[kit.protocol]
    target = adapter.prepare(kit.template(upstream, "echo"))
    assert "://" in adapter.origin(target)
    assert adapter.method(target)
    assert not adapter.is_safe(target) or adapter.is_idempotent(target)


@with_case("echo")
async def test_a_call_whose_idempotency_key_no_upstream_gets_is_sent_once(
    kit: Kit, upstream: Upstream, adapters
) -> None:
    """The header `limits.idempotency_header` makes a call repeatable only where it is sent."""
    adapter = adapters[kit.protocol]
    call = call_of(adapter, kit.template(upstream, "echo"), kit.arguments())
    call.headers = (("Idempotency-Key", CANARY),)
    await whole(await adapter.call(call))
    is_sent_once = isinstance(adapter, SendsOnce) and adapter.is_sent_once(call.target)
    has_key = CANARY in orjson.dumps(upstream.seen).decode()
    assert has_key or is_sent_once or adapter.is_safe(call.target)


@with_case("echo")
async def test_many_calls_at_once_get_their_own_responses(kit: Kit, upstream: Upstream, adapters) -> None:
    adapter = adapters[kit.protocol]
    template = kit.template(upstream, "echo")

    async def one(number: int) -> bool:
        arguments = _with_text(kit.arguments(), f"call-{number}")
        with contextlib.suppress(TimeoutError):
            result = await adapter.call(call_of(adapter, template, arguments, seconds=30))
            return bool(kit.echoed(await whole(result)) == arguments)
        return False

    assert all(await asyncio.gather(*(one(number) for number in range(20))))


LINK = {
    "connecting": ("up", 0), "request": ("up", 40), "answer": ("down", 30),
}  # fmt: skip
"""Which way a fault of the link lies, and after how many bytes."""


@with_case("echo")
@for_each("phase", LINK)
@for_each("kind", ["reset_peer", "timeout", "limit_data", "slicer"])
async def test_a_fault_of_the_link_is_a_typed_error_and_leaves_nothing_broken(
    kit: Kit, upstream: Upstream, adapters_without_probation, kind: Any, phase: str
) -> None:
    adapter = adapters_without_probation[kit.protocol]
    link = kit.through(upstream, 0)
    if link is None:
        # There is no TCP connection: a datagram, a program, a file.
        assert kit.protocol in WITHOUT_LINK
        return
    proxy = FaultProxy(("127.0.0.1", link[1]))
    await proxy.start()
    try:
        template, _ = kit.through(upstream, proxy.port) or ({}, 0)
        arguments = kit.arguments()
        for toxic in (None, Toxic(kind, *LINK[phase], value=1.0), None):  # type: ignore[arg-type]
            proxy.poison(toxic)
            if toxic is not None:
                # The bytes of the connection of the first call are counted already.
                proxy.reset()
            seconds = 60.0 if toxic is None else 1.0
            try:
                # A call that outlived its deadline by this much would be a defect.
                async with asyncio.timeout(seconds + 30):
                    result = await adapter.call(call_of(adapter, template, arguments, seconds=seconds))
                    assert kit.echoed(await whole(result)) == arguments
            except UpstreamError:
                if toxic is None:
                    raise
        async with asyncio.timeout(30):
            # No call waits for a response any more; one connection may stay open for reuse.
            while len(proxy) > 1:  # noqa: ASYNC110 - the proxy has no event for it.
                await asyncio.sleep(0.02)
    finally:
        await proxy.aclose()

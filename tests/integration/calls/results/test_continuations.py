"""Rests of results that were cut: bound to their key, sealed, bounded, and read without the upstream."""

import json
from typing import Any
from uuid import uuid4

import pytest
from redis import Redis
from sqlalchemy import delete

from app.calls.results import ContinuationStore, ResultBudget, read_continuation, read_result
from app.calls.results.budget import Rest
from app.calls.results.continuations import MAX_BYTES, MAX_KEY_BYTES
from app.catalog.feed import ChangeNotice
from app.core.errors import NotFound, Unavailable
from app.security.vault import Vault
from app.storage.models import ToolsetRow
from app.storage.redis import RedisClient, connect
from tests.harness.cases import for_each
from tests.integration.calls.results.conftest import principal

CANARY = "sk-canary-5f2a"
ITEMS = [{"id": number, "text": f"{CANARY} {'x' * 40}"} for number in range(300)]
TOOL = "p.read"


@pytest.fixture
def store(services) -> ContinuationStore:
    return services.continuations


@pytest.fixture
async def cut(call, upstream, store):
    """The first part of a list of 300 items, of the key `k`."""
    upstream.body = json.dumps(ITEMS).encode()
    return await read_result(await call(), budget=ResultBudget(max_bytes=4000), continuations=store)


@pytest.mark.parametrize("form", [None, "csv"])
async def test_all_parts_make_the_whole_and_the_upstream_is_called_once(cut, upstream, store, form) -> None:
    assert cut.continuation in cut.text
    budget = ResultBudget(max_bytes=4000, format=form)
    parts, handle, rows = [cut], cut.continuation, 0
    while handle is not None:
        part = await read_continuation(handle, principal=principal(), continuations=store, budget=budget)
        assert len(part.text.encode()) <= 4000
        again = await read_continuation(handle, principal=principal(), continuations=store, budget=budget)
        assert (part.text, part.continuation) == (again.text, again.continuation)
        rows += part.text.count(CANARY)
        parts.append(part)
        handle = part.continuation
    if form is None:
        assert [item for part in parts for item in json.loads(part.body)] == ITEMS
    assert rows + cut.text.count(CANARY) == 300
    assert len(upstream.requests) == 1


async def test_a_text_is_read_to_its_end(call, upstream, store) -> None:
    text = " ".join(f"wörd{number}" for number in range(3000))
    upstream.body, upstream.media_type = text.encode(), "text/plain; charset=utf-8"
    budget = ResultBudget(max_bytes=5000)
    part = await read_result(await call(), budget=budget, continuations=store)
    parts = [part]
    while part.continuation is not None:
        part = await read_continuation(
            part.continuation, principal=principal(), continuations=store, budget=budget
        )
        parts.append(part)
    assert "".join(part.content or part.text for part in parts) == text


async def test_an_item_that_is_too_large_is_read_as_text(call, upstream, store) -> None:
    items = ["a", "b" * 3000, "c"]
    upstream.body = json.dumps(items, separators=(",", ":")).encode()
    budget = ResultBudget(max_bytes=1000)
    part = await read_result(await call(), budget=budget, continuations=store)
    assert json.loads(part.body) == ["a"]
    texts = []
    while part.continuation is not None:
        part = await read_continuation(
            part.continuation, principal=principal(), continuations=store, budget=budget
        )
        texts.append(part.content or part.text)
    assert json.loads("".join(texts)) == items[1:]


@pytest.mark.parametrize(
    "who",
    [
        pytest.param(principal(key_id="other"), id="another-key"),
        pytest.param(principal(tenant_id=uuid4()), id="another-tenant"),
        pytest.param(principal(providers=frozenset({"q"})), id="no-longer-allowed"),
        pytest.param(principal(tags=frozenset({"t"})), id="another-tag"),
    ],
)
async def test_a_handle_is_of_no_use_to_others(cut, store, who) -> None:
    with pytest.raises(NotFound):
        await read_continuation(cut.continuation, principal=who, continuations=store)


@pytest.fixture
async def toolset(services, tools):
    """Stores the definition of the toolset `s`."""

    async def store(definition: dict[str, Any]) -> None:
        async with services.database.transaction() as session:
            await session.execute(delete(ToolsetRow))
            session.add(ToolsetRow(name="s", definition=definition))
        await services.collections.on_changes([ChangeNotice("toolset")])

    return store


async def test_a_key_that_is_limited_to_toolsets_reads_the_rests_of_their_members(
    cut, store, toolset
) -> None:
    await toolset({"tools": ["p.read"]})
    limited = principal().limited_to_toolsets(["s"])
    within = limited.within_toolset("s")
    for who in (limited, within):
        assert await read_continuation(cut.continuation, principal=who, continuations=store)
    foreign = principal(providers=frozenset({"q"})).limited_to_toolsets(["s"])
    with pytest.raises(NotFound):
        await read_continuation(cut.continuation, principal=foreign, continuations=store)
    await toolset({"tools": ["p.write"]})
    for who in (limited, within):
        with pytest.raises(NotFound):
            await read_continuation(cut.continuation, principal=who, continuations=store)
    assert await read_continuation(cut.continuation, principal=principal(), continuations=store)


async def test_the_rest_of_a_tool_that_does_not_exist_is_not_found(store, tools) -> None:
    handle = await store.store(Rest("text", b"x"), tool="p.gone", principal=principal())
    with pytest.raises(NotFound):
        await store.load(handle, principal=principal())


@for_each("handle", ["", "c_", "c_" + "A" * 22, "x" * 500, "c_" + "A" * 22 + ".i1", "\x00"])
async def test_an_unknown_handle_is_not_found(store, handle) -> None:
    with pytest.raises(NotFound):
        await read_continuation(handle, principal=principal(), continuations=store)


async def test_nothing_is_readable_in_redis(cut, services) -> None:
    assert cut.continuation is not None
    redis = services.redis
    names = [name async for name in redis.scan_iter("continuation:*")]
    assert len(names) >= 2
    for name in names:
        kind = await redis.type(name)
        content = (
            await redis.get(name) if kind == b"string" else repr(await redis.zrange(name, 0, -1)).encode()
        )
        assert CANARY.encode() not in name + content
        assert 0 < await redis.ttl(name) <= 600


async def test_a_piece_in_another_place_does_not_open(store, services, tools) -> None:
    content = json.dumps([f"{number} {'x' * 1000}" for number in range(600)]).encode()
    handle = await store.store(Rest("items", content), tool=TOOL, principal=principal())
    assert (await store.load(handle, principal=principal())).rest.content == content
    names = sorted([name async for name in services.redis.scan_iter(f"continuation:*{handle}:*")])
    assert len(names) == 3
    first, second = await services.redis.mget(names[:2])
    await services.redis.mset({names[0]: second, names[1]: first})
    with pytest.raises(NotFound):
        await store.load(handle, principal=principal())


async def test_a_key_has_64_mib_and_its_oldest_rests_end_early(store, tools) -> None:
    who, rest = principal(key_id=uuid4().hex), Rest("text", b"x" * MAX_BYTES)
    handles = [
        await store.store(rest, tool=TOOL, principal=who) for _ in range(MAX_KEY_BYTES // MAX_BYTES + 1)
    ]
    with pytest.raises(NotFound):
        await store.load(handles[0], principal=who)
    for handle in handles[1:]:
        assert len((await store.load(handle, principal=who)).rest.content) == MAX_BYTES
    assert await store.store(Rest("text", b"x" * (MAX_BYTES + 1)), tool=TOOL, principal=who) is None


async def test_without_redis_there_is_no_handle_and_the_note_says_so(call, upstream, services) -> None:
    upstream.body = json.dumps(ITEMS).encode()
    client = connect("redis://127.0.0.1:1/0")
    store = ContinuationStore(RedisClient(client), services.vault, services.collections)
    try:
        result = await read_result(await call(), budget=ResultBudget(max_bytes=4000), continuations=store)
        assert result.continuation is None
        assert "The rest could not be kept" in result.text
        assert not result.is_error
        with pytest.raises(Unavailable):
            await store.load("c_" + "A" * 22, principal=principal())
    finally:
        await client.aclose()
        await client.connection_pool.disconnect()


async def test_a_rest_that_is_too_large_is_said(call, upstream, store) -> None:
    upstream.body = b"x" * (MAX_BYTES + 10_000)
    upstream.media_type = "text/plain"
    result = await read_result(await call(), budget=ResultBudget(max_bytes=4000), continuations=store)
    assert result.continuation is None
    assert "was not kept" in result.text


async def test_a_small_rest_counts_as_16_kib(store, tools) -> None:
    who = principal(key_id=uuid4().hex)
    small = await store.store(Rest("text", b"x"), tool=TOOL, principal=who)
    sizes = [MAX_BYTES] * (MAX_KEY_BYTES // MAX_BYTES - 1) + [MAX_BYTES - (8 << 10)]
    for size in sizes:
        await store.store(Rest("text", b"x" * size), tool=TOOL, principal=who)
    with pytest.raises(NotFound):
        await store.load(small, principal=who)


async def test_a_text_has_no_items(store, tools) -> None:
    handle = await store.store(Rest("text", b'{"a": 1'), tool=TOOL, principal=principal())
    with pytest.raises(NotFound):
        await read_continuation(f"{handle}.i1", principal=principal(), continuations=store)


class RemovingVault:
    """The vault of a store; before it seals the third piece of a rest, the rest is removed from the index of
    its key, as another worker does for a later rest.
    """

    def __init__(self, vault: Vault, redis_url: str) -> None:
        self._vault, self._sealed = vault, 0
        self._redis = Redis.from_url(redis_url)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vault, name)

    def seal(self, plaintext: bytes, *, context: tuple[str, ...]) -> bytes:
        self._sealed += 1
        if self._sealed == 3:
            for index in self._redis.scan_iter("continuation:*index"):
                self._redis.zremrangebyrank(index, 0, -1)
        return self._vault.seal(plaintext, context=context)


async def test_no_piece_is_stored_of_a_rest_that_has_made_room(services, redis_url) -> None:
    who, redis = principal(key_id=uuid4().hex), services.redis
    known = {name async for name in redis.scan_iter("continuation:*:c_*")}
    vault: Any = RemovingVault(services.vault, redis_url)
    store = ContinuationStore(RedisClient(redis), vault, services.collections)
    assert await store.store(Rest("text", b"x" * MAX_BYTES), tool=TOOL, principal=who) is None
    added = {name async for name in redis.scan_iter("continuation:*:c_*")} - known
    assert {int(name.rpartition(b":")[2]) for name in added} == {0, 1}

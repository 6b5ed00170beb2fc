"""The directory reads once, then only what has changed, and is the same in each worker."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import event, text

from app.catalog.feed import ChangeFeed, record_change
from app.core.errors import NotFound
from app.search.index import Filters
from app.search.search_index import SearchIndex
from app.security.principal import Principal
from app.storage.models import TENANT, Override
from app.toolsets import ToolCollections, ToolSearch
from tests.stored import store_provider, store_tool

EVERYBODY = Principal(key_id="k", name="n", tenant_id=TENANT, scopes=frozenset({"tools:read", "tools:call"}))


@pytest.fixture
async def feed(registry):
    feed = ChangeFeed(registry, listen_dsn=None, poll_seconds=60)
    await feed.start()
    yield feed
    await feed.aclose()


@pytest.fixture
async def open_worker(registry, feed):
    opened = []

    async def open_one():
        search = SearchIndex(registry, base_url="http://gateway.test")
        collections = ToolCollections(registry, search)
        feed.subscribe(search.on_changes)
        feed.subscribe(collections.on_changes)
        await search.start()
        await search.wait_loaded()
        opened.append(search)
        return collections

    yield open_one
    for search in opened:
        await search.aclose()


@pytest.fixture
async def library(registry, feed):
    provider = await store_provider(registry, "library", tags=["public"])
    for name, method in (("books", "GET"), ("loans", "POST"), ("shelves", "DELETE")):
        template = {"call_template_type": "http", "http_method": method, "url": f"https://a.example/{name}"}
        await store_tool(registry, provider, name, description=f"All {name}.", call_template=template)
    internal = await store_provider(registry, "weather", tags=["internal"])
    await store_tool(registry, internal, "forecast", description="Rain or sun.")
    await feed.catch_up()
    return provider


@pytest.fixture
async def collections(library, open_worker):
    return await open_worker()


@pytest.fixture
def statements(registry):
    """The statements that are executed from here on."""
    executed = []

    def note(conn, cursor, statement, *rest):
        executed.append(statement)

    engine = registry.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    yield executed
    event.remove(engine, "before_cursor_execute", note)


def names(tools):
    return [tool.name for tool in tools]


async def change(registry, feed, name, **columns):
    setters = ", ".join(f"{column} = :{column}" for column in columns)
    statement = (
        f"UPDATE tools SET {setters}, version = version + 1 WHERE name = :tool RETURNING id, provider_id"
    )
    async with registry.transaction() as session:
        row = (await session.execute(text(statement), {"tool": name, **columns})).one()
        await record_change(session, kind="tool", provider_id=row.provider_id, object_id=str(row.id))
    await feed.catch_up()


async def test_list_is_sorted_by_name_and_read_once(collections, statements):
    registry = await collections.open_view(EVERYBODY)
    assert names(await registry.tools()) == [
        "library_books", "library_loans", "library_shelves", "weather_forecast",
    ]  # fmt: skip
    count = len(statements)
    assert count > 0
    await registry.tools()
    await registry.get("library.books")
    assert len(statements) == count


async def test_only_the_tool_that_changed_is_read_again(collections, registry, feed):
    before = await (await collections.open_view(EVERYBODY)).listing()
    read = collections.directory.tools_read
    await change(registry, feed, "library.loans", description="Who has what.")
    after = await (await collections.open_view(EVERYBODY)).listing()
    assert collections.directory.tools_read == read + 1
    assert after.stamp != before.stamp
    assert [tool.description for tool in after.tools][1] == "Who has what."
    assert after.tools[0] is before.tools[0]


async def test_new_disabled_and_deleted_tools(collections, registry, feed, library):
    view = await collections.open_view(EVERYBODY)
    await view.tools()
    added = await store_tool(registry, library, "members")
    await feed.catch_up()
    assert "library_members" in names(await view.tools())
    async with registry.transaction() as session:
        session.add(Override(tool_id=added.id, enabled=False))
        await session.flush()
        await record_change(session, kind="tool", provider_id=library.id, object_id=str(added.id))
    await feed.catch_up()
    assert "library_members" not in names(await view.tools())
    async with registry.transaction() as session:
        await session.execute(text("DELETE FROM providers WHERE name = 'library'"))
        await record_change(session, kind="provider", provider_id=library.id)
    await feed.catch_up()
    assert names(await view.tools()) == ["weather_forecast"]


async def test_another_principal_sees_only_what_it_may_call(collections):
    limited = replace(EVERYBODY, providers=frozenset({"weather"}))
    tagged = replace(EVERYBODY, tags=frozenset({"public"}))
    assert names(await (await collections.open_view(limited)).tools()) == ["weather_forecast"]
    assert len(await (await collections.open_view(tagged)).tools()) == 3
    with pytest.raises(NotFound):
        await (await collections.open_view(limited)).get("library.books")
    nothing = EVERYBODY.limited_to_toolsets(["support"])
    assert await (await collections.open_view(nothing)).tools() == ()


async def test_two_workers_have_equal_lists(collections, open_worker, registry, feed):
    first = await (await collections.open_view(EVERYBODY)).listing()
    await change(registry, feed, "library.loans", description="Who has what.")
    first = await (await collections.open_view(EVERYBODY)).listing()
    second = await (await (await open_worker()).open_view(EVERYBODY)).listing()
    assert first == second
    assert first.stamp == second.stamp


@pytest.mark.parametrize("name", ["library.books", "library_books"])
async def test_tool_is_found_by_each_of_its_names(collections, name):
    assert (await (await collections.open_view(EVERYBODY)).get(name)).tool == "library.books"


async def test_unknown_name_suggests_the_nearest(collections):
    with pytest.raises(NotFound) as raised:
        await (await collections.open_view(EVERYBODY)).get("library.bookz")
    assert "library.books" in raised.value.extra["suggestions"]


async def test_search_takes_hits_of_its_texts_in_turn(collections):
    view = await collections.open_view(EVERYBODY)
    assert names((await view.find(ToolSearch(["forecast", "books"], limit=2))).tools) == [
        "weather_forecast",
        "library_books",
    ]
    assert names((await view.find(ToolSearch([""], Filters(provider="library"), 2))).tools) == [
        "library_books",
        "library_loans",
    ]


async def test_annotations_are_those_of_the_method(collections):
    found = {tool.tool: tool for tool in await (await collections.open_view(EVERYBODY)).tools()}
    hints = {name: (one.read_only, one.destructive, one.idempotent) for name, one in found.items()}
    assert hints["library.books"] == (True, None, None)
    assert hints["library.loans"] == (False, None, False)
    assert hints["library.shelves"] == (False, True, True)
    assert found["library.books"].title == "All books"


async def test_operator_overrides_annotations(collections, registry, feed, library):
    override = {"annotations": {"read_only": True, "open_world": False}, "publish_output_schema": True}
    template = {"call_template_type": "http", "http_method": "POST", "url": "https://a.example/find"}
    await store_tool(registry, library, "find", override=override, call_template=template)
    await feed.catch_up()
    found = await (await collections.open_view(EVERYBODY)).get("library.find")
    assert (found.read_only, found.destructive, found.open_world) == (True, None, False)
    assert found.publishes_outputs


async def test_requests_at_the_same_time_all_get_what_is_stored(registry, library, feed, collections):
    """Also those that arrive while another one reads."""
    for change in (None, "added"):
        if change is not None:
            await store_tool(registry, library, change)
            await feed.catch_up()
        view = await collections.open_view(EVERYBODY)
        listings = await asyncio.gather(*(view.listing() for _ in range(8)))
        stored = len(await (await collections.open_view(EVERYBODY)).tools())
        assert [len(listing.tools) for listing in listings] == [stored] * 8
    assert stored == 5

"""After a change only what it touched is rendered again: a body that stays is the very same object."""

import asyncio

import orjson
import pytest
from sqlalchemy import event, text

from app.agents.utcp.manuals import Manuals
from app.agents.utcp.provider_manuals import ManualSelection
from app.catalog.feed import ChangeFeed, ChangeNotice
from app.security.principal import Principal
from app.storage.models import TENANT
from tests.stored import store_provider, store_tool

EVERYBODY = Principal(key_id="k", name="n", tenant_id=TENANT, scopes=frozenset({"tools:read"}))


@pytest.fixture
async def feed(registry):
    feed = ChangeFeed(registry, listen_dsn=None, poll_seconds=60)
    await feed.start()
    yield feed
    await feed.aclose()


@pytest.fixture
async def manuals(registry, feed):
    manuals = Manuals(registry, base_url="https://g.example")
    feed.subscribe(manuals.on_changes)
    return manuals


@pytest.fixture
async def library(registry, feed):
    provider = await store_provider(registry, "library")
    for name in ("books", "loans", "shelves"):
        await store_tool(registry, provider, name, description=f"All {name}")
    await feed.catch_up()
    return provider


async def read(manuals, provider=None, version=1):
    return await manuals.manual(ManualSelection(version, provider), principal=EVERYBODY)


def described(manual):
    return {tool["name"]: tool["description"] for tool in orjson.loads(manual.body)["tools"]}


def bodies(manuals, provider, version=1):
    return {tool.name: tool.body for tool in manuals._provider_manuals[provider.id, version].tools}


async def execute(registry, statement, **values):
    async with registry.transaction() as session:
        await session.execute(text(statement), values)


async def change_tool(registry, feed, name, description, *, kind="tool"):
    statement = "UPDATE tools SET description = :text, version = version + 1 WHERE name = :name"
    await execute(registry, statement, text=description, name=name)
    async with registry.read_session() as session:
        row = (
            await session.execute(text("SELECT id, provider_id FROM tools WHERE name = :n"), {"n": name})
        ).one()
    await announce(feed, ChangeNotice(kind, row.provider_id, str(row.id) if kind == "tool" else ""))


async def announce(feed, change):
    for subscriber in feed._subscribers:
        await subscriber([change])


@pytest.mark.parametrize("kind", ["tool", "provider", "all"])
async def test_only_the_tool_that_changed_is_rendered_again(manuals, library, registry, feed, kind):
    await read(manuals)
    before = bodies(manuals, library)
    await change_tool(registry, feed, "library.loans", "Who has what", kind=kind)
    assert described(await read(manuals))["library_loans"] == "Who has what"
    after = bodies(manuals, library)
    assert {name for name in after if after[name] is not before[name]} == {"library.loans"}


async def test_a_manual_that_a_change_does_not_touch_is_not_put_together_again(
    manuals, library, registry, feed
):
    other = await store_provider(registry, "other")
    await store_tool(registry, other, "thing")
    await feed.catch_up()
    mine, all_of_it = await read(manuals, "library"), await read(manuals)
    await change_tool(registry, feed, "other.thing", "Something else")
    assert await read(manuals, "library") is mine
    assert await read(manuals) is not all_of_it


async def test_one_tool_that_changed_is_read_alone(manuals, library, registry, feed):
    await read(manuals)
    await change_tool(registry, feed, "library.books", "New ones", kind="tool")
    rows = []

    def count(_connection, cursor, *_):
        rows.append(cursor.rowcount)

    event.listen(registry.engine.sync_engine, "after_cursor_execute", count)
    try:
        await read(manuals)
    finally:
        event.remove(registry.engine.sync_engine, "after_cursor_execute", count)
    assert len(rows) == 3, "the providers' names, the tool's stamp, and the tool"


async def test_what_comes_and_goes_is_seen(manuals, library, registry, feed):
    assert set(described(await read(manuals))) == {"library_books", "library_loans", "library_shelves"}
    await store_tool(registry, library, "authors")
    await execute(registry, "DELETE FROM tools WHERE name = 'library.books'")
    await announce(feed, ChangeNotice("provider", library.id))
    assert set(described(await read(manuals))) == {"library_authors", "library_loans", "library_shelves"}
    await execute(registry, "UPDATE providers SET enabled = false")
    await announce(feed, ChangeNotice("provider", library.id))
    assert described(await read(manuals)) == {}
    assert manuals._provider_manuals == {}


async def test_an_override_and_the_tags_of_the_provider_count_as_changes(manuals, library, registry, feed):
    limited = Principal(
        key_id="k", name="n", tenant_id=TENANT, scopes=frozenset({"tools:read"}), tags=frozenset({"open"})
    )
    selection = ManualSelection(1)
    assert described(await manuals.manual(selection, principal=limited)) == {}
    insert = (
        "INSERT INTO overrides (tool_id, tenant_id, description)"
        " SELECT id, tenant_id, 'Mine' FROM tools WHERE name = 'library.books'"
    )
    await execute(registry, insert)
    await execute(registry, "UPDATE providers SET tags = ARRAY['open']")
    await announce(feed, ChangeNotice("provider", library.id))
    assert described(await manuals.manual(selection, principal=limited))["library_books"] == "Mine"


async def test_a_change_while_a_manual_is_rendered_is_seen_by_the_next_reader(
    manuals, library, registry, feed
):
    told = []

    def tell(_connection, _cursor, statement, *_):
        if "tools.inputs" in statement and not told:
            told.append(asyncio.ensure_future(announce(feed, ChangeNotice("provider", library.id))))

    event.listen(registry.engine.sync_engine, "before_cursor_execute", tell)
    try:
        await read(manuals)
        await told[0]
    finally:
        event.remove(registry.engine.sync_engine, "before_cursor_execute", tell)
    await execute(registry, "UPDATE tools SET description = 'Late', version = 2 WHERE name = 'library.books'")
    assert described(await read(manuals))["library_books"] == "Late"


async def test_both_versions_see_a_change(manuals, library, registry, feed):
    await read(manuals, version=0)
    await read(manuals, version=1)
    await change_tool(registry, feed, "library.loans", "Who has what")
    for version in (0, 1):
        assert described(await read(manuals, version=version))["library_loans"] == "Who has what"

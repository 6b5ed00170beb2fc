"""Plans into rows of a real database."""

from dataclasses import replace

import pytest
from sqlalchemy import select
from sqlmodel import col

from app.providers.credentials.model import CredentialDraft
from app.providers.registration.model import (
    DocumentOptions,
    RegistrationRequest,
    RegistrationSource,
    ToolDraft,
)
from app.providers.registration.persist import (
    definition_of,
    open_source_body,
    refreshed_columns,
    write_provider,
    write_tools,
)
from app.providers.registration.plan import plan_registration
from app.providers.registration.repository import lock_names, pending_of
from app.providers.registration.tool_history import ToolHistoryWriter
from app.storage.models import (
    Credential,
    Override,
    Revision,
    SourceRow,
    Tool,
)
from tests.unit.providers.registration.documents import API_KEY, parsed_document

KEY = CredentialDraft("api_key", {}, {"value": "v"})


def request(**fields):
    source = fields.pop("source", RegistrationSource("document", b"x"))
    return RegistrationRequest("pets", source, **fields)


@pytest.fixture
def register(registry, reader, context, vault):
    """`await register(parsed, **fields)` stores a provider `pets`; returns what was stored."""

    async def store(parsed, **fields):
        about = context(**fields)
        plan = plan_registration(parsed, about, reader=reader)
        async with registry.transaction() as session:
            await lock_names(session)
            return await write_provider(
                session, request(), about, plan, definition="d", vault=vault, history=ToolHistoryWriter("key")
            )

    return store


@pytest.fixture
def refresh(registry, reader, context, vault):
    """`await refresh(provider, parsed)` makes its tools those of the source; returns result and pending."""

    async def store(provider, parsed):
        plan = plan_registration(parsed, context(), reader=reader)
        async with registry.transaction() as session:
            await lock_names(session)
            provider = await session.merge(provider)
            result = await write_tools(session, provider, plan, vault=vault, history=ToolHistoryWriter("key"))
            columns = await refreshed_columns(session, provider, plan, result.diff)
            return result, columns, await pending_of(session, provider.id)

    return store


async def rows(database, table, *columns):
    async with database.read_session() as session:
        return (await session.execute(select(*columns or (table,)))).all()


async def test_new_provider_is_stored_with_tools_slots_and_credentials(registry, register, vault):
    result = await register(parsed_document("/pets", "/owners", schemes=API_KEY), credentials={"key": KEY})
    assert result.names == {"GET /pets": "pets.pets", "GET /owners": "pets.owners"}
    assert (result.tool_count, result.diff.compatibility) == (2, "compatible")
    assert result.provider.slots[0]["slot"] == "key"
    tools = await rows(registry, Tool, col(Tool.name), col(Tool.security))
    assert [tuple(one) for one in tools] == [
        ("pets.pets", [[{"slot": "key", "scopes": []}]]),
        ("pets.owners", [[{"slot": "key", "scopes": []}]]),
    ]
    [(credential,)] = await rows(registry, Credential)
    assert (credential.slot, credential.allowed_origins) == ("key", ["https://api.example.com"])
    assert credential.sealed != b"v"
    [(source,)] = await rows(registry, SourceRow)
    assert open_source_body(source, vault=vault) == result.plan.parsed.source.body


async def test_refresh_adds_and_removes_tools_and_retains_overrides(registry, register, refresh):
    first = await register(parsed_document("/pets", "/owners"))
    [(tool,)] = [row for row in await rows(registry, Tool) if row[0].source_key == "GET /owners"]
    async with registry.transaction() as session:
        session.add(Override(tool_id=tool.id, description="edited"))
    result, _, pending = await refresh(first.provider, parsed_document("/pets", "/visits"))
    assert (result.diff.added, result.diff.removed) == (("GET /visits",), ("GET /owners",))
    assert pending is None
    assert await rows(registry, Override) == []
    await refresh(first.provider, parsed_document("/pets", "/owners"))
    assert [row[0].description for row in await rows(registry, Override)] == ["edited"]


async def test_tools_that_move_to_another_origin_are_pending_after_a_refresh(registry, register, refresh):
    first = await register(parsed_document("/pets"))
    moved = parsed_document("/pets", server="https://other.example")
    result, columns, pending = await refresh(first.provider, moved)
    assert result.diff.pending_approval == ("GET /pets",)
    assert [one["source_key"] for one in pending.pending_definitions["tools"]] == ["GET /pets"]
    assert columns["origins"] == ["https://api.example.com"]
    [(tool,)] = await rows(registry, Tool)
    assert tool.call_template["url"].startswith("https://api.example.com/")
    states = [row[0].state for row in await rows(registry, Revision)]
    assert sorted(states) == ["active", "pending", "superseded"]


async def test_tool_that_postgresql_rejects_is_reported_and_not_stored(registry, register):
    parsed = parsed_document("/pets", "/owners")
    unstorable = replace(parsed.tools[1], description="a\x00b")
    result = await register(replace(parsed, tools=(parsed.tools[0], unstorable)))
    assert [one.outcome for one in result.report.operations] == ["accepted", "skipped"]
    assert (result.diff.added, result.tool_count) == (("GET /pets",), 1)


async def test_definition_depends_on_everything_but_name_and_pointer(vault):
    plain = await definition_of(request(), vault=vault)
    assert await definition_of(request(at="/3"), vault=vault) == plain
    assert await definition_of(request(credentials={"key": KEY}), vault=vault) != plain
    assert await definition_of(request(tags=("a",)), vault=vault) != plain


class DigestedText:
    """Stands for a vault, and returns what it would digest."""

    def digest(self, purpose, *parts):
        return b"|".join(parts)


async def test_a_registration_without_a_language_has_the_definition_of_earlier_releases():
    """Else each registration that a release before has stored would differ from the same one now."""
    plain = bytes.fromhex(await definition_of(request(), vault=DigestedText()))
    assert b"language" not in plain
    spoken = bytes.fromhex(await definition_of(request(language="de"), vault=DigestedText()))
    assert b'"language":"de"' in spoken


async def test_a_registration_that_does_not_say_whether_to_follow_has_the_definition_of_earlier_releases():
    definitions = {}
    for follows in (None, False, True):
        options = DocumentOptions(follow_references=follows)
        source = RegistrationSource("template", value={"url": "https://a.example"}, options=options)
        definitions[follows] = bytes.fromhex(
            await definition_of(request(source=source), vault=DigestedText())
        )
    assert b'"follow_references":false' in definitions[None]
    assert b"final_url" not in definitions[None]
    assert len(set(definitions.values())) == 3


def test_a_definition_of_an_earlier_release_has_no_keywords():
    tool = parsed_document().tools[0]
    stored = replace(tool, keywords=("coupon",)).to_json()
    assert ToolDraft.from_json(stored).keywords == ("coupon",)
    del stored["keywords"]
    assert ToolDraft.from_json(stored).keywords == ()


async def test_the_language_is_that_of_the_document_and_stays_where_it_says_none(register, refresh):
    stored = await register(replace(parsed_document(), language="de"))
    assert (stored.provider.language, stored.provider.document_language) == (None, "de")
    _, columns, _ = await refresh(stored.provider, parsed_document())
    assert columns["document_language"] == "de"
    _, columns, _ = await refresh(stored.provider, replace(parsed_document(), language="fr"))
    assert columns["document_language"] == "fr"

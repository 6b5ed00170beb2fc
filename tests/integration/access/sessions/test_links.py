"""Sign-in links: their token is used once, within 60 seconds."""

import asyncio

import pytest
from sqlalchemy import text

from app.access import KeyVerifier
from app.access.repository import find_key, revoke_key
from app.access.sessions import Sessions
from app.core.errors import RateLimited, Unauthenticated
from app.core.rate_limit import RateLimit
from tests.harness.keys import key_id_of


@pytest.fixture
async def key(rig):
    return await rig.gateway.key("tools:read")


@pytest.fixture
async def link(rig, key):
    principal = await rig.principal(key)

    async def make():
        return await rig.sessions.create_sign_in_token(principal.key_id, principal.tenant_id)

    return make


async def test_a_link_signs_in_with_its_key(rig, key, link):
    created = await rig.sessions.sign_in_by_link(await link(), host="192.0.2.1")

    found = await rig.sessions.find(created.text.reveal())
    assert found.key_id == key_id_of(key)
    ((_, _, detail),) = await rig.events()
    assert detail["method"] == "link"


async def test_a_link_is_used_once(rig, key, link):
    token = await link()

    assert await rig.sessions.redeem(token) == key_id_of(key)
    assert await rig.sessions.redeem(token) is None


async def test_a_link_is_used_once_however_many_try(rig, key, link):
    token = await link()

    found = await asyncio.gather(*(rig.worker().redeem(token) for _ in range(5)))

    assert found.count(None) == 4
    assert key_id_of(key) in found


async def test_a_link_is_valid_for_sixty_seconds(rig, key, link):
    early, late = await link(), await link()
    rig.clock.forward(seconds=58)
    assert await rig.sessions.redeem(early) == key_id_of(key)
    rig.clock.forward(seconds=3)

    assert await rig.sessions.redeem(late) is None


async def test_a_link_of_a_revoked_key_does_not_sign_in(rig, key, link):
    token = await link()
    async with rig.gateway.database.transaction() as session:
        await revoke_key(session, await find_key(session, key_id_of(key)), actor="test")
    await rig.gateway.feed.catch_up()

    with pytest.raises(Unauthenticated):
        await rig.sessions.sign_in_by_link(token, host="192.0.2.1")


async def test_the_text_of_a_session_is_no_link_and_a_link_is_no_session(rig, key, link):
    token, session = await link(), await rig.session(key)

    assert await rig.sessions.find(token) is None
    assert await rig.sessions.redeem(session) is None
    assert await rig.sessions.redeem("ugl_" + session[4:]) is None


async def test_a_link_of_its_key_confirms_a_session(rig, key, link):
    session = await rig.session(key)
    for base in ("", "https://gateway.example/console/sign-in#"):
        rig.clock.forward(seconds=400)
        assert not await rig.sessions.is_recent(session)
        proof = base + await link()

        await rig.sessions.confirm(session, proof, host="192.0.2.1")

        assert await rig.sessions.is_recent(session)
        with pytest.raises(Unauthenticated, match="was used"):
            await rig.sessions.confirm(session, proof, host="192.0.2.1")


async def test_a_link_of_another_key_confirms_no_session(rig, link):
    session = await rig.session(await rig.gateway.key("tools:read"))
    rig.clock.forward(seconds=400)

    with pytest.raises(Unauthenticated, match="not a link of the key"):
        await rig.sessions.confirm(session, await link(), host="192.0.2.1")

    assert not await rig.sessions.is_recent(session)


async def test_an_opened_link_confirms_the_session_of_its_key_and_replaces_any_other(rig, key, link):
    session, other = await rig.session(key), await rig.session(await rig.gateway.key("tools:read"))
    rig.clock.forward(seconds=400)

    made = [
        await rig.sessions.confirm_or_sign_in_by_link(one, await link(), host="192.0.2.1")
        for one in (session, other, "nonsense")
    ]

    assert [one is None for one in made] == [True, False, False]
    assert await rig.sessions.is_recent(session)
    assert not await rig.sessions.is_recent(other)


async def test_invalid_links_count_as_invalid_keys(rig):
    gateway = rig.gateway
    keys = KeyVerifier(gateway.database, gateway.vault, failure_limit=RateLimit(1, 60, 2))
    sessions = Sessions(gateway.database, gateway.vault, keys, gateway.feed)
    waits = []
    for _ in range(3):
        with pytest.raises(Unauthenticated) as error:
            await sessions.sign_in_by_link("nonsense", host="192.0.2.1")
        waits.append("Retry-After" in error.value.headers)

    assert waits == [False, False, True]
    assert keys.rejected == 1


async def test_links_of_a_key_are_limited(rig, link):
    for _ in range(30):
        await link()

    with pytest.raises(RateLimited):
        await link()


async def test_only_a_digest_is_stored(rig, link):
    token = await link()

    async with rig.gateway.database.read_session() as session:
        row = (await session.execute(text("SELECT row_to_json(t)::text FROM sign_in_tokens t"))).scalar_one()

    assert token[4:] not in row


async def test_expired_links_are_deleted(rig, link):
    await link()
    rig.clock.forward(minutes=2)

    await rig.sessions.sweep()

    async with rig.gateway.database.read_session() as session:
        assert (await session.execute(text("SELECT count(*) FROM sign_in_tokens"))).scalar_one() == 0

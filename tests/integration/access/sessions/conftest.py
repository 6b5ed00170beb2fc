"""Sessions on a real PostgreSQL, with a clock that a test sets."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.access import KeyVerifier
from app.access.repository import find_key
from app.access.sessions import SessionPolicy, Sessions
from app.security.principal import Principal
from tests.harness.access import AccessGateway, access_settings, gateway, own_database_url
from tests.harness.keys import key_id_of

__all__ = ["access_settings", "gateway", "own_database_url"]


class Clock:
    """The current time; a test moves it forward."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.offset

    def forward(self, **offset: float) -> None:
        self.offset += timedelta(**offset)


class Rig:
    """Sessions of several workers on one database, with one clock."""

    def __init__(self, gateway: AccessGateway) -> None:
        self.gateway = gateway
        self.clock = Clock()
        self.sessions = self.worker()

    def worker(self, **policy: float) -> Sessions:
        """Return the sessions of one more worker; the feed of all workers is read by `catch_up`."""
        gateway = self.gateway
        keys = KeyVerifier(gateway.database, gateway.vault)
        made = Sessions(
            gateway.database,
            gateway.vault,
            keys,
            gateway.feed,
            policy=SessionPolicy(**policy),
            clock=self.clock,
        )
        gateway.feed.subscribe(keys.on_changes)
        gateway.feed.subscribe(made.on_changes)
        return made

    async def principal(self, key: str) -> Principal:
        """Return the principal of the text of a key."""
        async with self.gateway.database.read_session() as session:
            row = await find_key(session, key_id_of(key))
        assert row is not None
        return self.gateway.keys.principal_of(row)

    async def session(self, key: str) -> str:
        """Return the text of a new session of a key."""
        return (await self.sessions.create(await self.principal(key))).text.reveal()

    async def events(self) -> list[tuple[str, str, dict]]:
        """Return actor, action and detail of the events of sessions, the oldest first."""
        query = text("SELECT actor, action, detail FROM events WHERE object_type = 'session' ORDER BY id")
        async with self.gateway.database.read_session() as session:
            return [tuple(row) for row in await session.execute(query)]


@pytest.fixture
async def rig(gateway: AccessGateway) -> AsyncIterator[Rig]:
    """Sessions on a database without sessions."""
    async with gateway.database.transaction() as session:
        await session.execute(text("TRUNCATE console_sessions, sign_in_tokens"))
    return Rig(gateway)

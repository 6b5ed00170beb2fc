"""The sign-in link of a gateway's first start: valid for ten minutes."""

import asyncio
from datetime import UTC, datetime, timedelta

from sqlalchemy import select

from app.cli.welcome import Welcome
from app.core.settings import Settings
from app.security.vault import KeyRing
from app.storage.database import Database
from app.storage.models import SignInTokenRow
from tests.harness.keys import key_id_of
from tests.integration.calls.log.conftest import own_database_url

__all__ = ["own_database_url"]


async def tokens(dsn):
    database = Database(dsn, pool_size=1)
    async with database.read_session() as session:
        found = list(await session.scalars(select(SignInTokenRow)))
    await database.aclose()
    return found


def test_the_first_start_makes_a_link_of_ten_minutes(own_database_url, tmp_path):
    settings = Settings(
        _env_file=None,
        database_url=own_database_url,
        data_dir=tmp_path,
        sealing_keys=KeyRing.generate("test"),
    )
    first = Welcome.prepare(settings, address="http://127.0.0.1:1", local="http://127.0.0.1:1")
    (row,) = asyncio.run(tokens(own_database_url))
    assert first.first_token.startswith("ugl_")
    assert first.first_token not in repr(first) + repr(row)
    assert row.key_id == key_id_of(first.key)
    left = row.expires_at - datetime.now(UTC)
    assert timedelta(seconds=590) < left <= timedelta(seconds=600)

    later = Welcome.prepare(settings, address="http://127.0.0.1:1", local="http://127.0.0.1:1")
    assert (later.is_new, later.first_token, later.key) == (False, None, first.key)
    assert len(asyncio.run(tokens(own_database_url))) == 1

"""Identifiers that are ordered by the time of their making."""

import time
from datetime import UTC, datetime
from uuid import RFC_4122

from app.core.uuid7 import uuid7


def test_an_id_is_a_uuid_of_version_7_with_the_current_time():
    before = datetime.now(UTC).timestamp()
    made = uuid7()
    after = datetime.now(UTC).timestamp()
    assert (made.version, made.variant) == (7, RFC_4122)
    assert int(before * 1000) <= made.int >> 80 <= after * 1000


def test_ids_that_are_made_within_a_millisecond_are_ordered():
    made = []
    for _ in range(2_000):
        made.append(uuid7())
        later = time.time_ns() + 1_000
        while time.time_ns() < later:
            pass
    assert made == sorted(made)
    assert len({one.int >> 80 for one in made}) < len(made) / 10


def test_ids_of_the_same_moment_are_unique():
    assert len({uuid7() for _ in range(100_000)}) == 100_000

"""UUIDs of version 7, as `uuid.uuid7` of Python 3.14 makes them."""

import random
import time
from datetime import datetime
from uuid import UUID


def uuid7() -> UUID:
    """Return a UUIDv7 (RFC 9562 section 5.7), ordered by time, so that primary keys append; it is not secret.

    The twelve bits after the milliseconds are a fraction of the millisecond (section 6.2, method 3): ids that
    one process makes a microsecond apart are in the order of their making. The rest is made by the
    `random` module, which is seeded from the system, and again after a fork (`os.urandom` costs 5 us).
    """
    millis, nanos = divmod(time.time_ns(), 1_000_000)
    fraction = (nanos << 12) // 1_000_000
    return UUID(int=millis << 80 | 0x7 << 76 | fraction << 64 | 0x2 << 62 | random.getrandbits(62))


def make_first_uuid7(moment: datetime) -> UUID:
    """Return the least UUIDv7 of the millisecond of an aware time from 1970 on."""
    return UUID(int=int(moment.timestamp() * 1000) << 80 | 0x7 << 76 | 0x2 << 62)

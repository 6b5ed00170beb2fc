"""Which ids of keys exist: 8 bytes each, so that a look-up by an id that was made up can wait for the others.

The set says who goes first, and never that there is no key: a key that was created elsewhere a moment ago is
not in it yet. PostgreSQL has the last word.
"""

from array import array
from bisect import bisect_left
from typing import Final

_BUCKETS: Final = 256


class KeyIds:
    """A set of key ids that only grows, as 64-bit hashes under a key of this process (Python's SipHash).

    An id that was never added is taken for one that was with a probability of 2^-64 times their number. The
    hashes lie sorted in 256 arrays, so that adding one to a million moves 32 kB (2 us).
    """

    def __init__(self) -> None:
        self._buckets = [array("q") for _ in range(_BUCKETS)]
        self.is_complete = False
        """Whether the ids of all keys were read at some time, and no change since was missed."""

    def __len__(self) -> int:
        return sum(map(len, self._buckets))

    def __contains__(self, key_id: str) -> bool:
        number = hash(key_id)
        bucket = self._buckets[number % _BUCKETS]
        place = bisect_left(bucket, number)
        return place < len(bucket) and bucket[place] == number

    def add(self, key_id: str) -> None:
        """Add an id."""
        number = hash(key_id)
        bucket = self._buckets[number % _BUCKETS]
        place = bisect_left(bucket, number)
        if place == len(bucket) or bucket[place] != number:
            bucket.insert(place, number)

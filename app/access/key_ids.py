"""The set of existing key ids, so that their look-ups take precedence over those of invented ids.

The set determines the precedence only, not whether a key exists: a key that another worker has just created
is not in it yet. PostgreSQL is authoritative.
"""

from array import array
from bisect import bisect_left
from typing import Final

_BUCKETS: Final = 256


class KeyIds:
    """A growing set of key ids, stored as 64-bit hashes under a key of this process (Python's SipHash).

    The probability of a false positive is 2^-64 times the number of ids. The hashes are in 256 sorted arrays,
    so that adding one to a million moves 32 kB (2 us).
    """

    def __init__(self) -> None:
        self._buckets = [array("q") for _ in range(_BUCKETS)]
        self.is_complete = False
        """Whether it has the ids of all keys: they have been read, and no later change was missed."""

    def __len__(self) -> int:
        return sum(map(len, self._buckets))

    def __contains__(self, key_id: str) -> bool:
        number = hash(key_id)
        bucket = self._buckets[number % _BUCKETS]
        index = bisect_left(bucket, number)
        return index < len(bucket) and bucket[index] == number

    def add(self, key_id: str) -> None:
        """Add the id of a key; do nothing if it is in the set."""
        number = hash(key_id)
        bucket = self._buckets[number % _BUCKETS]
        index = bisect_left(bucket, number)
        if index == len(bucket) or bucket[index] != number:
            bucket.insert(index, number)

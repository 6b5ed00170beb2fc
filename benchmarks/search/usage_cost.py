"""What learning from use costs a worker: memory of the counts, a search's prior, and noting a search.

python -m benchmarks.search.usage_cost [--counts 100000]
"""

import argparse
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

from app.search.usage.counts import LabelCount, UsageCounts
from app.search.usage.digests import UsageDigests
from app.search.usage.observed import SearchQueue
from app.security.principal import Principal
from app.security.vault import KeyRing, Vault
from app.storage.models import TENANT

_STEMS_OF_SEARCH = 8
_TIMES = 2_000


def _resident() -> int:
    """Return the resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _microseconds(work: Callable[[], object], *, times: int = _TIMES) -> float:
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times * 1e6


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, default=100_000)
    options = parser.parse_args()
    chance = random.Random(1)
    vault = Vault(KeyRing.parse(KeyRing.generate("k")))
    vault.load([vault.new_data_key("digest")])
    digests = UsageDigests(vault)
    words = [f"word{number}" for number in range(4_000)]
    stems = digests.digest_stems(words, TENANT)
    tools = [UUID(int=number) for number in range(2_000)]
    keys = [digests.digest_key(f"key{number}", TENANT) for number in range(50)]
    now = time.time()
    # Some words are in most searches, most in few: Zipf's law. A key uses forty of the tools.
    weights = [1 / rank for rank in range(1, len(stems) + 1)]
    used = {key: chance.sample(tools, 40) for key in keys}
    places: set[tuple[bytes, UUID, bytes]] = set()
    while len(places) < options.counts:
        key = chance.choice(keys)
        places.add((chance.choices(stems, weights)[0], chance.choice(used[key]), key))
    rows = [LabelCount(*place, 2.0, 2, now) for place in sorted(places)]
    print("| | |\n|---|---|")
    for across_keys in (False, True):
        before, began = _resident(), time.process_time()
        counts = UsageCounts(half_life_days=30, across_keys=across_keys)
        counts.merge(rows)
        mode = "tenant" if across_keys else "key"
        print(f"| {mode}: memory of a count, bytes | {(_resident() - before) / len(rows):.0f} |")
        print(f"| {mode}: reading all counts, s | {time.process_time() - began:.2f} |")

        queries = iter([chance.choices(words, weights, k=_STEMS_OF_SEARCH) for _ in range(_TIMES)])

        def prior(counts: UsageCounts = counts, queries: Iterator[list[str]] = queries) -> object:
            return counts.get_priors(digests.digest_stems(next(queries), TENANT), keys[0])

        print(f"| {mode}: prior of a search of {_STEMS_OF_SEARCH} words, us | {_microseconds(prior):.0f} |")
    queue, principal = SearchQueue(), Principal("k", "k", TENANT, frozenset())
    numbers = iter(range(10**9))

    def note() -> None:
        number = next(numbers)
        queue.add(principal, f"text {number}", words[:_STEMS_OF_SEARCH], tools[:10])
        if number % 50 == 0:
            queue.take()

    print(f"| noting a search, us | {_microseconds(note):.1f} |")


if __name__ == "__main__":
    main()

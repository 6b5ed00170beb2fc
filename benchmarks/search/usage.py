"""What learning from use gains, and what an attacker gains: synthetic sessions through the real ranking.

    python -m benchmarks.search.usage [--users 8] [--seeds 3]

Users have tasks (`usage_tasks`), some often and most seldom (Zipf's law). In a session a user searches by one
of the first four sentences of a task, and calls the right tool with the probability of 0.85 where it is among
the first ten, else another one that was shown, or none. What is measured are searches by the last two
sentences of each task, which no session has. All numbers are deterministic.
"""

import argparse
import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from app.search.index import Filters, IndexedProvider, IndexedTool, IndexQuery, ToolIndex
from app.search.signals import SearchScope, Signals
from app.search.usage.counts import MAX_WEIGHT, LabelCount, UsageCounts, decay_weight
from app.security.principal import Principal
from app.storage.models import TENANT
from benchmarks.search.usage_tasks import TASKS, Task, tools

SESSIONS: Final = (0, 3, 10, 30, 100)
"""Numbers of sessions of each user after which is measured."""
_HALF_LIFE_DAYS: Final = 30.0
_SESSION_SECONDS: Final = 3 * 3_600.0
_RIGHT: Final = 0.85
_LEARNED_SENTENCES: Final = 4
_SHOWN: Final = 10
_RESAMPLES: Final = 2_000
_PROVIDER: Final = UUID(int=1)
_FREQUENCIES: Final = [1 / rank for rank in range(1, len(TASKS) + 1)]


def tool_id(name: str) -> UUID:
    """Return the id of a tool of the pool."""
    return uuid5(NAMESPACE_URL, name)


@dataclass
class LearnedUsage:
    """The labels of sessions, as the gateway stores them, and their priors (a `UsagePrior`)."""

    across_keys: bool = False
    now: float = 0.0
    _labels: dict[tuple[bytes, UUID, bytes], LabelCount] = field(default_factory=dict)
    _counts: UsageCounts = field(init=False)

    def __post_init__(self) -> None:
        self._counts = UsageCounts(
            half_life_days=_HALF_LIFE_DAYS, across_keys=self.across_keys, clock=lambda: self.now
        )

    def add(self, stems: Sequence[str], tool: UUID, key: str) -> None:
        """Add a label."""
        added = []
        for stem in stems:
            place = (_digest(stem), tool, key.encode())
            old = self._labels.get(place)
            weight, labels = 1.0, 1
            if old is not None:
                rest = decay_weight(old.weight, seconds=self.now - old.at, half_life_days=_HALF_LIFE_DAYS)
                weight, labels = min(MAX_WEIGHT, rest + 1), old.labels + 1
            self._labels[place] = LabelCount(*place, weight, labels, self.now)
            added.append(self._labels[place])
        self._counts.merge(added)

    def get_priors(self, stems: Sequence[str], scope: SearchScope) -> Mapping[UUID, float]:
        """Return the priors of a search."""
        return self._counts.get_priors([_digest(stem) for stem in stems], scope.key_id.encode())


@dataclass
class Shop:
    """The pool behind the real index."""

    usage: LearnedUsage
    index: ToolIndex = field(init=False)

    def __post_init__(self) -> None:
        self.index = ToolIndex(Signals(usage=self.usage))
        self.index.providers = {_PROVIDER: IndexedProvider("shop", True, frozenset())}
        self.index.add(_indexed(name, text) for name, text in tools().items())
        self.index.commit()

    def search(self, sentence: str, key: str, *, limit: int = _SHOWN) -> tuple[Sequence[str], Sequence[str]]:
        """Return the stems of a sentence, and the names of the tools that are shown, best first."""
        principal = Principal(key, key, TENANT, frozenset({"tools:read"}))
        query = IndexQuery(sentence, SearchScope.of(principal))
        found = self.index.search(query, viewer=principal, filters=Filters(), limit=limit)
        return found.stems, [match.name.removeprefix("shop.") for match in found.items]

    def rank(self, sentence: str, key: str, tool: str) -> int:
        """Return the place of a tool in a search, from 1; 1,000 where it is not found."""
        _, names = self.search(sentence, key, limit=100)
        return names.index(tool) + 1 if tool in names else 1_000


def _indexed(name: str, text: str) -> IndexedTool:
    return IndexedTool(
        id=tool_id(name),
        provider_id=_PROVIDER,
        provider="shop",
        name=f"shop.{name}",
        alias=f"shop_{name}",
        description=text,
        inputs={},
        tags=(),
        registrar_tags=(),
        json_members=b"",
    )


def _digest(stem: str) -> bytes:
    return hashlib.sha256(stem.encode()).digest()[:16]


def habits(users: int, *, seed: int) -> dict[str, list[Task]]:
    """Return the tasks of each user, the most frequent first."""
    chance = random.Random(f"habits {seed}")
    return {f"user {number}": chance.sample(TASKS, len(TASKS)) for number in range(users)}


def sessions(users: int, *, seed: int) -> Iterator[tuple[str, Task, str, random.Random]]:
    """Yield sessions for ever, of each user in turn: the key, the task, the sentence, and what decides
    chances.
    """
    chance = random.Random(seed)
    while True:
        for key, order in habits(users, seed=seed).items():
            task = chance.choices(order, _FREQUENCIES)[0]
            yield key, task, chance.choice(task.sentences[:_LEARNED_SENTENCES]), chance


def run_session(shop: Shop, key: str, task: Task, sentence: str, chance: random.Random) -> None:
    """Search and call as a user does."""
    shop.usage.now += _SESSION_SECONDS
    stems, names = shop.search(sentence, key)
    others = [name for name in names if name != task.tool]
    called = None
    if chance.random() < _RIGHT:
        called = task.tool if task.tool in names else None
    elif others:
        called = chance.choice(others)
    if called is not None:
        shop.usage.add(stems, tool_id(called), key)


class Place(NamedTuple):
    """The place of the right tool in a search, and how often its user has this task."""

    rank: int
    frequency: float


def places(shop: Shop, users: int, *, seed: int) -> list[list[Place]]:
    """Return, for each user, the places of the right tools in searches by the sentences that no session
    has.
    """
    return [
        [
            Place(shop.rank(sentence, key, task.tool), frequency)
            for task, frequency in zip(order, _FREQUENCIES, strict=True)
            for sentence in task.sentences[_LEARNED_SENTENCES:]
        ]
        for key, order in habits(users, seed=seed).items()
    ]


def interval(found: Sequence[Sequence[Place]], limit: int, *, alike: bool) -> str:
    """Return the share of places within the limit, and its 95 % interval by resampling users; all tasks
    `alike`, or as often as the user has them.
    """
    shares = []
    for of_user in found:
        weights = [1.0 if alike else place.frequency for place in of_user]
        right = sum(weight for weight, place in zip(weights, of_user, strict=True) if place.rank <= limit)
        shares.append(right / sum(weights))
    chance = random.Random(0)
    resampled = sorted(fmean(chance.choices(shares, k=len(shares))) for _ in range(_RESAMPLES))
    return f"{fmean(shares):.3f} [{resampled[_RESAMPLES // 40]:.3f} {resampled[-_RESAMPLES // 40]:.3f}]"


def gains(*, across_keys: bool, users: int, seeds: int) -> list[dict[str, str]]:
    """Return hit@1 and recall@5 by the number of sessions of each user."""
    found: dict[int, list[list[Place]]] = {number: [] for number in SESSIONS}
    for seed in range(seeds):
        shop = Shop(LearnedUsage(across_keys))
        coming, done = sessions(users, seed=seed), 0
        for number in SESSIONS:
            while done < number * users:
                run_session(shop, *next(coming))
                done += 1
            found[number] += places(shop, users, seed=seed)
    return [
        {
            "sessions of each user": str(number),
            "hit@1, as users search": interval(ranks, 1, alike=False),
            "recall@5": interval(ranks, 5, alike=False),
            "hit@1, all tasks alike": interval(ranks, 1, alike=True),
            "recall@5, all tasks alike": interval(ranks, 5, alike=True),
        }
        for number, ranks in found.items()
    ]


ATTACKED: Final = ("create_refund", "list_invoice", "create_coupon", "get_shipment", "list_order")
ATTACKERS_TOOL: Final = "delete_customer"


def attack(*, across_keys: bool, keys: int, everywhere: bool, users: int, honest: int = 30) -> dict[str, str]:
    """Return how far attackers raise their tool for others, by their own keys.

    Each key calls the tool 1,000 times after each sentence of the attacked tasks, with `everywhere` after the
    sentences of all tasks. That the tool was shown is not required here: the attackers' searches name it.
    """
    shop = Shop(LearnedUsage(across_keys))
    coming = sessions(users, seed=0)
    for _ in range(honest * users):
        run_session(shop, *next(coming))
    attacked = [task for task in TASKS if everywhere or task.tool in ATTACKED]
    sentences = [(sentence, task.tool) for task in attacked for sentence in task.sentences]
    before = [_standing(shop, sentence, tool) for sentence, tool in sentences]
    for number in range(keys):
        for sentence, _ in sentences:
            stems, _ = shop.search(sentence, f"attacker {number}")
            for _ in range(1_000):
                shop.usage.add(stems, tool_id(ATTACKERS_TOOL), f"attacker {number}")
    after = [_standing(shop, sentence, tool) for sentence, tool in sentences]
    return {
        "attackers": f"{keys} key{'s' * (keys > 1)}, {'all' if everywhere else len(ATTACKED)} tasks",
        "its tool first": _change(before, after, lambda one: one.tool == 1),
        "in the first five": _change(before, after, lambda one: one.tool <= 5),
        "right tool first": _change(before, after, lambda one: one.right == 1),
        "largest prior": f"{max(one.prior for one in after):.2f}",
    }


@dataclass(frozen=True, slots=True)
class _Standing:
    """The places of the attackers' tool and of the right one in a search of somebody else, and the former's
    prior.
    """

    tool: int
    right: int
    prior: float


def _standing(shop: Shop, sentence: str, right: str) -> _Standing:
    stems, _ = shop.search(sentence, "bystander")
    priors = shop.usage.get_priors(stems, SearchScope(TENANT, "bystander"))
    return _Standing(
        shop.rank(sentence, "bystander", ATTACKERS_TOOL),
        shop.rank(sentence, "bystander", right),
        priors.get(tool_id(ATTACKERS_TOOL), 0.0),
    )


def _change(
    before: Sequence[_Standing], after: Sequence[_Standing], chosen: Callable[[_Standing], bool]
) -> str:
    return " -> ".join(f"{sum(map(chosen, found)) / len(found):.2f}" for found in (before, after))


def _print(title: str, rows: Sequence[Mapping[str, str]]) -> None:
    print(f"\n{title}\n")
    print("|", " | ".join(rows[0]), "|")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("|", " | ".join(row.values()), "|")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for across_keys in (False, True):
        mode = "tenant" if across_keys else "key"
        rows = gains(across_keys=across_keys, users=options.users, seeds=options.seeds)
        _print(f"SEARCH_USAGE={mode}, {options.users} users", rows)
    for across_keys in (False, True):
        mode = "tenant" if across_keys else "key"
        attacks = [
            attack(across_keys=across_keys, keys=keys, everywhere=everywhere, users=options.users)
            for keys, everywhere in ((1, False), (2, False), (1, True), (3, False), (10, False))
        ]
        _print(f"Attacks, SEARCH_USAGE={mode}", attacks)


if __name__ == "__main__":
    main()

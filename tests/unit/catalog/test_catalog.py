"""The plans of a worker: loaded once, kept in bounds, and forgotten when something changes."""

import asyncio
from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest

from app.catalog import Catalog
from app.catalog.feed import ChangeNotice
from app.core.errors import NotFound
from tests.harness.cases import for_each


@dataclass(frozen=True)
class StoredTool:
    """As much of a plan as the catalog looks at."""

    name: str
    tool_id: UUID
    provider_id: UUID


class Registry:
    """What is stored, as the catalog's loader would read it."""

    def __init__(self):
        self.tools = {}
        self.loads = 0
        self.gate = asyncio.Event()
        self.gate.set()

    def add(self, name, provider):
        self.tools[name] = StoredTool(name, uuid4(), provider)
        return self.tools[name]

    async def load(self, name):
        self.loads += 1
        found = self.tools.get(name)
        await self.gate.wait()
        if found is None:
            raise NotFound(name)
        return found


@pytest.fixture
def stored():
    return Registry()


async def test_a_plan_is_loaded_once_for_all_who_wait(stored):
    stored.add("p.a", uuid4())
    catalog = Catalog(stored.load)
    plans = await asyncio.gather(*(catalog.plan("p.a") for _ in range(50)))
    assert stored.loads == 1
    assert len({id(plan) for plan in plans}) == 1


async def test_a_client_that_disconnects_does_not_end_the_load_of_the_others(stored):
    stored.add("p.a", uuid4())
    stored.gate.clear()
    catalog = Catalog(stored.load)
    first = asyncio.create_task(catalog.plan("p.a"))
    second = asyncio.create_task(catalog.plan("p.a"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    stored.gate.set()
    assert (await second).name == "p.a"


async def test_what_does_not_exist_is_requested_again(stored):
    catalog = Catalog(stored.load)
    with pytest.raises(NotFound):
        await catalog.plan("p.a")
    stored.add("p.a", uuid4())
    assert (await catalog.plan("p.a")).name == "p.a"


async def test_the_least_recently_used_leaves_first(stored):
    for name in "abc":
        stored.add(name, uuid4())
    catalog = Catalog(stored.load, capacity=2)
    await catalog.plan("a")
    await catalog.plan("b")
    await catalog.plan("a")
    await catalog.plan("c")
    loads = stored.loads
    await catalog.plan("a")
    assert stored.loads == loads
    await catalog.plan("b")
    assert stored.loads == loads + 1
    assert len(catalog) == 2


@for_each(
    ("change", "forgotten"),
    [
        (lambda plan: ChangeNotice("provider", plan.provider_id), True),
        (lambda plan: ChangeNotice("credential", plan.provider_id, "x"), True),
        (lambda plan: ChangeNotice("variable", plan.provider_id, "NAME"), True),
        (lambda _: ChangeNotice("variable", None, "NAME"), True),
        (lambda plan: ChangeNotice("tool", plan.provider_id, str(plan.tool_id)), True),
        (lambda plan: ChangeNotice("tool", plan.provider_id, str(uuid4())), False),
        (lambda _: ChangeNotice("all"), True),
        (lambda _: ChangeNotice("provider", uuid4()), False),
        (lambda _: ChangeNotice("key", None, "k1"), False),
    ],
)
async def test_a_change_forgets_what_it_touches_and_nothing_else(change, forgotten):
    stored = Registry()
    plan = stored.add("p.a", uuid4())
    catalog = Catalog(stored.load)
    await catalog.plan("p.a")
    await catalog.on_changes([change(plan)])
    await catalog.plan("p.a")
    assert stored.loads == (2 if forgotten else 1)


async def test_a_load_that_a_change_overtook_is_not_kept(stored):
    old = stored.add("p.a", uuid4())
    stored.gate.clear()
    catalog = Catalog(stored.load)
    before = asyncio.create_task(catalog.plan("p.a"))
    await asyncio.sleep(0.01)
    new = stored.add("p.a", old.provider_id)
    await catalog.on_changes([ChangeNotice("provider", old.provider_id)])
    after = asyncio.create_task(catalog.plan("p.a"))
    await asyncio.sleep(0.01)
    stored.gate.set()
    await before
    assert await after is new
    assert await catalog.plan("p.a") is new

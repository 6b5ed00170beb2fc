"""What a router knows of executors that are not connected, and what their absence does to a breaker."""

import asyncio
import time
from uuid import uuid4

import pytest

from app.formats.ubp.model import Command
from app.protocols.command_routing import Capability, CommandNotSent, CommandRouter, ExecutorConnection

TENANT = uuid4()
ORDERS = Capability(TENANT, "orders", "get_order_status")


def connection(tenant_id=TENANT, name="orders"):
    found = ExecutorConnection(None, tenant_id=tenant_id, executor=name, key_id="k")
    found.register(["get_order_status"])
    return found


async def failed(router):
    deadline = asyncio.get_running_loop().time() + 5
    with pytest.raises(CommandNotSent) as caught:
        await router.execute(ORDERS, Command("c", "get_order_status"), deadline=deadline)
    return caught.value


async def test_the_error_names_the_executor_and_when_the_last_one_has_disconnected():
    router = CommandRouter()
    never_seen = await failed(router)
    assert never_seen.extra == {"executor": "orders", "command_name": "get_order_status"}
    assert never_seen.headers["Retry-After"] == "5"
    first, second = connection(), connection()
    router.add(first)
    router.add(second)
    router.remove(first)
    assert router.away_since(TENANT, "orders") is None
    before = time.time()
    router.remove(second)
    since = router.away_since(TENANT, "orders")
    assert before <= since <= time.time()
    error = await failed(router)
    assert error.extra["away_since"] in error.detail
    assert not error.request_sent


async def test_the_commands_of_an_executor_are_those_of_all_its_connections():
    router = CommandRouter()
    assert router.commands_of(TENANT, "orders") is None
    old, new = connection(), connection()
    new.register(["get_order_status", "cancel_order"])
    router.add(old)
    router.add(new)
    assert router.commands_of(TENANT, "orders") == {"get_order_status", "cancel_order"}
    router.remove(new)
    assert router.commands_of(TENANT, "orders") == {"get_order_status"}


async def test_executors_of_another_tenant_are_neither_seen_nor_away():
    router = CommandRouter()
    other = uuid4()
    theirs = connection(other)
    router.add(theirs)
    assert router.commands_of(TENANT, "orders") is None
    assert await router.executors(TENANT) == []
    assert [one.tenant_id for one in await router.executors(other)] == [other]
    await failed(router)
    router.remove(theirs)
    assert router.away_since(TENANT, "orders") is None


async def test_each_new_connection_is_told_to_the_listener():
    router = CommandRouter()
    seen = []
    router.listen(lambda tenant_id, executor: seen.append((tenant_id, executor)))
    first = connection()
    router.add(first)
    router.remove(first)
    router.add(connection())
    assert seen == [(TENANT, "orders")] * 2


async def test_a_connection_whose_tools_are_being_stored_is_not_listed_and_its_commands_are_reserved():
    router = CommandRouter()
    new = ExecutorConnection(None, tenant_id=TENANT, executor="orders", key_id="k")
    new.begin_registration(["get_order_status"])
    router.add(new)
    assert await router.executors(TENANT) == []
    assert not router.is_connected(ORDERS)
    assert router.commands_of(TENANT, "orders") is None
    assert await router.commands_of_others(TENANT, "orders", connection_id="") == {"get_order_status"}
    router.remove(new)
    assert router.away_since(TENANT, "orders") is None
    assert await router.commands_of_others(TENANT, "orders", connection_id="") == frozenset()


async def test_a_registration_that_is_abandoned_leaves_the_commands_as_they_were():
    router = CommandRouter()
    known = connection()
    router.add(known)
    known.begin_registration(["cancel_order"])
    assert router.is_connected(ORDERS)
    known.abandon_registration()
    assert router.commands_of(TENANT, "orders") == {"get_order_status"}
    assert await router.commands_of_others(TENANT, "orders", connection_id="") == {"get_order_status"}

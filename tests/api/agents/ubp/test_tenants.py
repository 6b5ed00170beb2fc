"""Executors of two tenants that have the same name and the same commands, at two replicas."""

import asyncio
from contextlib import AsyncExitStack
from uuid import UUID

import httpx2
import pytest
from sqlmodel import col, select

from app.access.repository import KeyDescription, issue_key
from app.security.principal import Grant
from app.storage.models import TENANT, Provider, Tool
from tests.harness.application import run_application
from tests.harness.ubp_peers import connected
from tests.stored import store_provider, store_tool

OTHER = UUID("00000000-0000-7000-8000-000000000002")
SCOPES = frozenset({"tools:read", "tools:call", "providers:read", "executors:connect"})


@pytest.fixture(scope="module")
async def replicas(applications):
    first = await applications.get()
    async with run_application(first.services.settings) as second:
        yield first, second


@pytest.fixture(scope="module")
async def keys(replicas):
    """A key of each tenant; the other one has rows of the same names, too."""
    services = replicas[0].services
    template = {"call_template_type": "ubp", "executor": "orders", "command_name": "get_order_status"}
    provider = await store_provider(services.database, "orders", tenant_id=OTHER, protocol="ubp")
    await store_tool(services.database, provider, "get_order_status", tenant_id=OTHER, call_template=template)
    found = {}
    async with services.database.transaction() as session:
        for tenant in (TENANT, OTHER):
            minted, _ = await issue_key(
                session,
                services.vault,
                KeyDescription("test"),
                grant=Grant(SCOPES),
                actor="test",
                tenant=tenant,
            )
            found[tenant] = minted.text.reveal()
    for replica in replicas:
        await replica.services.feed.catch_up()
    return found


class Peers:
    """For each tenant an executor at one replica, and an agent at each."""

    def __init__(self, replicas, keys):
        self.replicas = replicas
        self.keys = keys
        self.stack = AsyncExitStack()
        self.executors = {}
        self.agents = {}

    async def __aenter__(self):
        # The executors of the tenants are at different replicas.
        for replica, (tenant, key) in zip(self.replicas, self.keys.items(), strict=True):

            async def respond(request, tenant=tenant):
                return str(tenant)

            executor = await self.stack.enter_async_context(connected(replica, key, handler=respond))
            await executor.register("orders")
            self.executors[tenant] = executor
        for number, replica in enumerate(self.replicas):
            for tenant, key in self.keys.items():
                agent = await self.stack.enter_async_context(connected(replica, key))
                self.agents[tenant, number] = agent
        return self

    async def __aexit__(self, *_):
        await self.stack.aclose()

    async def listed(self, replica, tenant):
        """Return the connections that a key of the tenant is shown."""
        headers = {"Authorization": f"Bearer {self.keys[tenant]}"}
        async with httpx2.AsyncClient(base_url=replica.url, headers=headers, trust_env=False) as client:
            response = await client.get("/executors")
            assert response.status_code == 200, response.text
            return response.json()["items"]


async def test_commands_of_the_same_id_reach_the_executors_of_their_tenants(replicas, keys):
    async with Peers(replicas, keys) as peers:
        for number in range(10):
            asked = [
                (tenant, agent.request("get_order_status", {"order_id": 1}, f"c-{number}"))
                for (tenant, _), agent in peers.agents.items()
            ]
            responses = await asyncio.gather(*(request for _, request in asked))
            for (tenant, _), response in zip(asked, responses, strict=True):
                assert (response["commandId"], response["status"]) == (f"c-{number}", "SUCCESS"), response
                assert response["result"]["value"] == str(tenant)
        for executor in peers.executors.values():
            # One of each agent of the tenant.
            assert set(executor.executed.values()) == {2}
            assert len(executor.executed) == 10


async def test_a_key_is_shown_the_executors_of_its_tenant(replicas, keys):
    async with Peers(replicas, keys) as peers:
        shown = {
            tenant: {one["id"] for replica in replicas for one in await peers.listed(replica, tenant)}
            for tenant in keys
        }
        assert [len(ids) for ids in shown.values()] == [1, 1]
        assert not set.intersection(*shown.values())


@pytest.mark.parametrize("left", [TENANT, OTHER])
async def test_commands_do_not_reach_the_executor_of_another_tenant_once_the_own_one_has_gone(
    replicas, keys, left
):
    async with Peers(replicas, keys) as peers:
        await peers.executors[left].aclose()
        while any([await peers.listed(replica, left) for replica in replicas]):  # noqa: ASYNC110 - a list over HTTP has no event.
            await asyncio.sleep(0.02)
        for (tenant, _), agent in peers.agents.items():
            response = await agent.request("get_order_status", {"order_id": 1}, "gone")
            assert response["status"] == ("UNAVAILABLE" if tenant == left else "SUCCESS")
        assert not peers.executors[left].executed


async def test_an_executor_leaves_the_providers_and_tools_of_another_tenant_as_they_are(replicas, keys):
    first = replicas[0]
    async with connected(first, keys[TENANT]) as own, connected(first, keys[OTHER]) as other:
        await own.register("orders")
        before = await stored_names(first)
        await other.register("orders", {"name": "planted", "description": "", "parameters": []})
        assert await stored_names(first) == before
        deregistered = await other.request("agent.deregister_tools", {"names": ["planted"]})
        assert deregistered["result"]["value"]["removed"] == []
        assert await stored_names(first) == before
    async with connected(first, keys[OTHER]) as other:
        await other.register("elsewhere")
        assert await stored_names(first) == before


async def stored_names(replica):
    """Return the names of the providers and tools of all tenants."""
    async with replica.services.database.read_session() as session:
        found = await session.execute(
            select(Provider.tenant_id, Provider.name, Tool.source_key).join(
                Tool, col(Tool.provider_id) == col(Provider.id)
            )
        )
        return sorted(tuple(map(str, row)) for row in found)

"""Peers that send what no honest one does: names that PostgreSQL or the memory cannot take."""

import pytest

from tests.api.agents.ubp.conftest import executor_of
from tests.harness.ubp_peers import ORDER_STATUS


@pytest.mark.parametrize("name", ["orders\0", "x" * 100_000])
async def test_a_name_that_no_command_can_have_is_not_found(pair, name):
    async with executor_of(pair[0], "tools:call") as agent:
        called = await agent.request(name, {}, "c-1")
        assert called["status"] == "NOT_FOUND", called["error"]
        declared = await agent.request(
            "agent.register_tools", {"tools": [{**ORDER_STATUS, "name": name}]}, role="reasoner"
        )
        assert declared["status"] == "NOT_FOUND", declared["error"]

"""Peers that send what no honest one does: names and ids that PostgreSQL or the memory cannot take."""

import pytest

from app.executors.session import MAX_ANSWER_BYTES
from tests.api.executors.conftest import executor_of
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


async def test_ids_of_commands_count_for_the_size_of_stored_responses(pair):
    size = MAX_ANSWER_BYTES // 16
    async with executor_of(pair[0]) as peer:
        ids = [f"{number}-".ljust(size, "x") for number in range(17)]
        for command_id in ids:
            assert (await peer.request("agent.ping", {}, command_id))["status"] == "SUCCESS"
        repeated = await peer.request("agent.ping", {}, ids[0])
        assert repeated["error"] == "The command was executed before; its response is no longer stored."
        assert (await peer.request("agent.ping", {}, ids[-1]))["status"] == "SUCCESS"

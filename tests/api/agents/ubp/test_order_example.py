"""The order example of UBP's chapter on tool calling in all six steps, by each transport, on one and on two replicas.

The user's prompt is a command for the agent, whose model asks for the status of the order.
"""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack, ExitStack, contextmanager

import pytest

from tests.api.agents.ubp.order_example import (
    ANSWER,
    BOT,
    LLM_AGENT,
    PROMPT,
    TRANSPORTS,
    ChatModel,
    DatabaseQueryAgent,
    LlmReasoningAgent,
    bot_process,
    connection,
    create_database,
    executions,
    listening,
)
from tests.harness.gateway import serve
from tests.harness.ubp_peers import connected
from tests.protocols.kits.base import free_port

STRUCT = "type.googleapis.com/google.protobuf.Struct"


class Replica:
    """A running gateway, and where each transport of UBP is."""

    def __init__(self, running, grpc_port, key):
        self.running = running
        self.key = key
        self._grpc = f"127.0.0.1:{grpc_port}"

    def address(self, transport):
        return self._grpc if transport == "grpc" else self.running.url

    def connection(self, transport):
        return connection(transport, self.address(transport), self.key)

    def executors(self, name):
        """Return the connections of an executor that this replica knows."""
        with self.running.client() as client:
            return client.get("/executors", params={"executor": name}).json()["items"]

    def wait_executors(self, name, number):
        """Wait until this replica knows of so many connections of an executor."""
        while len(self.executors(name)) != number:
            time.sleep(0.02)


@pytest.fixture(scope="module")
def replicas(servers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("replicas")
    dsn = servers.create_database()
    found, settings = [], {}
    with ExitStack() as stack:
        stack.callback(servers.drop_database, dsn)
        for _ in range(2):
            port = free_port()
            settings["UBP_GRPC_PORT"] = str(port)
            running = stack.enter_context(serve(servers, folder, database_url=dsn, **settings))
            settings["SEALING_KEYS"] = running.environment["SEALING_KEYS"]
            # The name of an executor belongs to a key.
            found.append(Replica(running, port, found[0].key if found else running.key))
        yield found


@pytest.fixture
def database(tmp_path):
    return create_database(tmp_path / "orders.sqlite")


@pytest.fixture(scope="module")
def model():
    with ChatModel() as running:
        yield running


@contextmanager
def registered_bot(replica, transport, database):
    """Yield the Database Query Bot, registered; at the end wait until the replica knows that it has gone."""
    with replica.connection(transport) as opened:
        bot = DatabaseQueryAgent(opened, database)
        response = bot.register_tools_with_orchestrator()
        assert response.status == response.SUCCESS, response
        with listening(bot.listen_for_commands, opened.close):
            yield bot
    replica.wait_executors(BOT, 0)


@contextmanager
def registered_agent(replica, transport, model):
    """Yield the agent, which has declared its tools and waits for prompts, and the response to its declaration."""
    with replica.connection(transport) as opened:
        agent = LlmReasoningAgent(opened, model)
        declared = agent.register_tools_with_orchestrator()
        with listening(agent.listen_for_prompts, opened.close):
            replica.wait_executors(LLM_AGENT, 1)
            yield agent, declared
    replica.wait_executors(LLM_AGENT, 0)


def ask(replica, prompt):
    """Send the prompt of a user; return the response to it."""
    body = {
        "commandId": "prompt",
        "commandName": "handle_user_prompt",
        "arguments": {"@type": STRUCT, "value": {"prompt": prompt}},
    }
    with replica.running.client() as client:
        return client.post("/ubp/commands", json=body).json()


def tool_of(replica, name):
    with replica.running.client() as client:
        return client.get(f"/tools/{name}").json()


def call_of(replica, call_id):
    with replica.running.client() as client:
        while (response := client.get(f"/calls/{call_id}")).status_code == 404:
            # Calls are recorded in the background.
            time.sleep(0.02)
        return response.json()


@pytest.mark.parametrize(
    ("of_agent", "of_executor", "number"),
    [
        *((transport, transport, 1) for transport in TRANSPORTS),
        *((transport, transport, 2) for transport in TRANSPORTS),
        ("grpc", "json", 2),
        ("json", "binary", 1),
        ("binary", "grpc", 2),
    ],
)
def test_the_six_steps(replicas, model, database, of_agent, of_executor, number):
    of_user, at_agent = replicas[0], replicas[number - 1]
    model.requests.clear()
    with (
        registered_bot(replicas[0], of_executor, database) as bot,
        registered_agent(at_agent, of_agent, model) as (agent, declared),
    ):
        # 1. Both have registered; the agent is told that there is such a tool.
        assert declared.status == declared.SUCCESS, declared
        # 2. The prompt is routed to the agent, whose model gets it with the registered definitions.
        response = ask(of_user, PROMPT)
        first, second = model.requests
        assert first["messages"] == [{"role": "user", "content": PROMPT}]
        [tool] = first["tools"]
        stored = tool_of(at_agent, f"{BOT}.get_order_status")
        assert (tool["function"]["name"], tool["function"]["description"]) == (
            "get_order_status",
            stored["description"],
        )
        assert tool["function"]["parameters"] == stored["inputs"]
        # 3. The model's call becomes a command, 4. which reaches the executor as it is, 5. once.
        [sent], [executed] = agent.sent, bot.executed
        assert (executed.command_id, executed.command_name) == (sent.command_id, "get_order_status")
        assert executed.arguments == sent.arguments
        assert executions(database) == {sent.command_id: 1}
        # 6. The agent gets the response, and its model makes the final text of prompt, call and result.
        [received] = agent.received
        assert (received.command_id, received.status) == (sent.command_id, received.SUCCESS)
        call = {"name": "get_order_status", "arguments": '{"order_id": 123}'}
        assert second["messages"] == [
            {"role": "user", "content": PROMPT},
            {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [{"id": sent.command_id, "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": sent.command_id, "content": "Shipped"},
        ]
        assert second["tools"] == first["tools"]
        assert (response["commandId"], response["status"]) == ("prompt", "SUCCESS"), response
        assert response["result"]["value"] == ANSWER
        # The use of each tool is recorded.
        tools = [
            call_of(of_user, one)["tool"]
            for one in (received.metadata["call_id"], response["metadata"]["call_id"])
        ]
        assert tools == [f"{BOT}.get_order_status", f"{LLM_AGENT}.handle_user_prompt"]


def test_other_clients_find_the_tool_and_call_it(replicas, database):
    with registered_bot(replicas[0], "grpc", database), replicas[1].running.client() as client:
        found = client.get("/tools/search", params={"q": "status of an order"}).json()["items"]
        assert found[0]["name"] == f"{BOT}.get_order_status"
        called = client.post(f"/tools/{BOT}.get_order_status/call", json={"order_id": 123})
        assert (called.status_code, called.json()) == (200, "Shipped")
    assert list(executions(database).values()) == [1]


class Load:
    """Agents at several replicas that send one command after the other; `statuses` are those of the responses."""

    def __init__(self, agents):
        self.statuses = {}
        self.not_sent = set()
        self._stopped = False
        self._tasks = [
            asyncio.ensure_future(self._send(agent, f"a{number}-{task}"))
            for number, agent in enumerate(agents)
            for task in range(4)
        ]

    def count(self, status):
        return Counter(self.statuses.values())[status]

    async def until(self, condition):
        while not condition():
            assert not any(task.done() for task in self._tasks)
            await asyncio.sleep(0.02)

    async def stop(self):
        self._stopped = True
        await asyncio.gather(*self._tasks)

    async def _send(self, agent, name):
        number = 0
        while not self._stopped:
            number += 1
            command_id = f"{name}-{number}"
            response = await agent.request(
                "get_order_status", {"@type": STRUCT, "value": {"order_id": 123}}, command_id
            )
            assert response["commandId"] == command_id
            self.statuses[command_id] = response["status"]
            if response["status"] == "SUCCESS":
                assert response["result"]["value"] == "Shipped"
            else:
                if "executor" in response["result"]["value"]:
                    # The problem of a command for which no executor is connected.
                    self.not_sent.add(command_id)
                await asyncio.sleep(0.05)


async def test_each_command_has_one_response_while_the_bot_is_killed_and_started_elsewhere(
    replicas, database
):
    first, second = replicas
    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(connected(one.running)) for one in replicas]
        key = first.running.key
        with bot_process("grpc", first.address("grpc"), key, database) as process:
            await asyncio.to_thread(second.wait_executors, BOT, 1)
            load = Load(agents)
            await load.until(lambda: load.count("SUCCESS") > 20)
            process.kill()
            process.wait()
            await load.until(lambda: load.count("UNAVAILABLE") > 4)
        before = load.count("SUCCESS")
        with bot_process("binary", second.address("binary"), key, database):
            await load.until(lambda: load.count("SUCCESS") > before + 20)
            await load.stop()
        await asyncio.to_thread(first.wait_executors, BOT, 0)
    executed = executions(database)
    assert set(load.statuses.values()) == {"SUCCESS", "UNAVAILABLE"}
    assert set(executed.values()) == {1}
    assert executed.keys() >= {one for one, status in load.statuses.items() if status == "SUCCESS"}
    assert executed.keys() <= load.statuses.keys()
    assert load.not_sent
    assert not load.not_sent & executed.keys()

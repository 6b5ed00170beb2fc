"""U: a replica with an executor of UBP is killed, and Redis is away, while agents send commands. Each has one response and one
record, and none is executed twice."""

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import websockets

from tests.faults.report import Row
from tests.faults.rig import Rig, until
from tests.harness.ubp_peers import ORDER_STATUS, UbpPeer, connected_to

TITLE = "commands for executors while replicas are killed and Redis is away"

_NAME = "u"
_COMMAND = "u_status"
_DEFINITION = {**ORDER_STATUS, "name": _COMMAND}
_AGENTS = 8
"""At each replica that is not killed."""
_REDIS_SECONDS = 2.0
_STATUSES = frozenset({"SUCCESS", "UNAVAILABLE", "TIMEOUT"})
_RECORDS = "SELECT id::text FROM calls WHERE provider = $1"


@dataclass(slots=True)
class Commands:
    """What was sent and executed. `executed` counts commands by their id; `responses` are those of the agents."""

    executed: Counter[str] = field(default_factory=Counter)
    responses: dict[str, dict[str, Any]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    """The ids of commands that got another command's response."""

    async def execute(self, request: dict[str, Any]) -> Any:
        """Execute a command in 20 ms; return its argument."""
        self.executed[request["commandId"]] += 1
        await asyncio.sleep(0.02)
        return request["arguments"]["order_id"]

    async def send(self, agent: UbpPeer, number: int, name: str) -> str:
        """Send a command, store its response, and return its status."""
        command_id = f"{name}-{number}"
        response = await agent.request(_COMMAND, {"order_id": number}, command_id, timeout_ms="20000")
        self.responses[command_id] = response
        status = str(response["status"])
        own = response["commandId"] == command_id and (
            status != "SUCCESS" or response["result"]["value"] == number
        )
        if not own:
            self.wrong.append(command_id)
        return status

    def count(self, status: str) -> int:
        """Return the number of responses with a status."""
        return sum(response["status"] == status for response in self.responses.values())


async def run(rig: Rig) -> list[Row]:
    """3,000 commands and 6 kills; in the slice 300 and one."""
    number, kills = (3_000, 6) if rig.full else (300, 1)
    await rig.use(CALL_LOG_MODE="strict")
    commands = Commands()
    first, *others = rig.replicas.all
    key = rig.replicas.key
    executors = [asyncio.create_task(_execute_always(one.url, key, commands)) for one in (first, others[0])]
    supervisor = asyncio.create_task(rig.replicas.supervise())
    try:
        async with contextlib.AsyncExitStack() as stack:
            agents = [await stack.enter_async_context(connected_to(one.url, key)) for one in others]
            await _both_connected(rig)
            load = asyncio.gather(
                *(
                    _send(commands, agents[task % 2], number // (2 * _AGENTS), f"a{task}")
                    for task in range(2 * _AGENTS)
                )
            )
            for kill in range(kills):
                await _reached(commands, number * (kill + 1) // (kills + 2))
                first.kill()
                await _both_connected(rig)
            await _reached(commands, number * (kills + 1) // (kills + 2))
            await rig.redis.cut()
            await asyncio.sleep(_REDIS_SECONDS)
            await rig.redis.heal()
            await load
            during = Counter(str(response["status"]) for response in commands.responses.values())
            await _both_connected(rig)
            later = [
                await commands.send(agent, one, f"later{place}")
                for place, agent in enumerate(agents)
                for one in range(10)
            ]
    finally:
        for task in (supervisor, *executors):
            task.cancel()
        await asyncio.gather(supervisor, *executors, return_exceptions=True)
    await rig.use(CALL_LOG_MODE="strict")
    return await _rows(rig, commands, during, later, kills)


async def _execute_always(url: str, key: str, commands: Commands) -> None:
    """Be an executor at a replica, and connect again whenever the connection has ended."""
    while True:
        with contextlib.suppress(OSError, websockets.WebSocketException):
            async with connected_to(url, key, commands.execute) as executor:
                await executor.register(_NAME, _DEFINITION, max_commands="8")
                await executor.wait_closed()
        await asyncio.sleep(0.1)


async def _send(commands: Commands, agent: UbpPeer, number: int, name: str) -> None:
    for one in range(number):
        if await commands.send(agent, one, name) != "SUCCESS":
            await asyncio.sleep(0.1)


async def _reached(commands: Commands, number: int) -> None:
    while len(commands.responses) < number:  # noqa: ASYNC110 - responses have no event of their own.
        await asyncio.sleep(0.02)


async def _both_connected(rig: Rig) -> None:
    """Wait until all replicas list the two executors."""

    async def listed() -> bool:
        for replica in rig.replicas.all:
            async with rig.client(replica.url) as client:
                status, body, _ = await client.request("GET", f"/executors?executor={_NAME}")
            if status != 200 or len(body["items"]) != 2:
                return False
        return True

    assert await until(listed, 120) < 120, "The executors have not connected again."


async def _rows(
    rig: Rig, commands: Commands, during: Counter[str], later: list[str], kills: int
) -> list[Row]:
    twice = [name for name, times in commands.executed.items() if times > 1]
    succeeded = {name for name, one in commands.responses.items() if one["status"] == "SUCCESS"}
    calls = Counter(str(one["metadata"].get("call_id")) for one in commands.responses.values())
    missing: list[str] = []
    found = 0

    async def all_recorded() -> bool:
        nonlocal found
        records = Counter(str(row[0]) for row in await rig.servers.primary.query(_RECORDS, _NAME))
        found = records.total()
        missing[:] = [call_id for call_id in calls if records[call_id] != 1]
        return not missing

    await until(all_recorded, 30, every=0.5)
    total = len(commands.responses)
    others = set(during) - _STATUSES
    tried = f"{total} commands, {kills} SIGKILL of the replica with one of two executors, Redis away for {_REDIS_SECONDS:.0f} s"
    return [
        Row("U", tried, "one response for each, SUCCESS, UNAVAILABLE or TIMEOUT; SUCCESS afterwards",
            f"{dict(during)}; {len(commands.wrong)} wrong; afterwards {later.count('SUCCESS')} of {len(later)} SUCCESS",
            not others and not commands.wrong and set(later) == {"SUCCESS"}),
        Row("U", "the same: what the executors received", "no command twice; each that succeeded",
            f"{len(commands.executed)} executed, {len(twice)} twice, {len(succeeded - commands.executed.keys())} not executed",
            not twice and succeeded <= commands.executed.keys()),
        Row("U", "the same: records", "one for each command",
            f"{found} records, {len(missing)} missing", not missing and found == total == len(calls)),
    ]  # fmt: skip

"""The `utcp` 1.x client calling the upstream itself; runs in a virtual environment of its own.

`python utcp_client.py UPSTREAM CALLS WARM_UP CONNECTIONS` prints the CPU microseconds of one call. It imports
nothing of this project, whose dependencies that environment does not have.
"""

import asyncio
import logging
import resource
import sys

from utcp.utcp_client import UtcpClient


def cpu_seconds() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def drive(client: UtcpClient, calls: int, connections: int) -> None:
    """`calls` calls, `connections` at a time."""
    numbers = iter(range(calls))

    async def one_after_another() -> None:
        for _ in numbers:
            response = await client.call_tool("bench.get", {"id": 42, "q": "sea", "limit": 10})
            if response["id"] != 42:
                raise SystemExit("an unexpected response")

    await asyncio.gather(*(one_after_another() for _ in range(connections)))


async def main() -> None:
    """Register, warm up, measure."""
    logging.disable(logging.CRITICAL)
    upstream, calls, warm_up, connections = sys.argv[1], *map(int, sys.argv[2:5])
    entry = {"name": "bench", "call_template_type": "http", "http_method": "GET", "url": upstream + "/utcp"}
    client = await UtcpClient.create(config={"manual_call_templates": [entry]})
    await drive(client, warm_up, connections)
    before = cpu_seconds()
    await drive(client, calls, connections)
    print((cpu_seconds() - before) / calls * 1e6)


if __name__ == "__main__":
    asyncio.run(main())

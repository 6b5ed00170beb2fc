"""`python -m tests.interop.agents`: the released clients of agents list tools whose schemas make such clients fail.

Writes `results.json` and the table of docs/clients.md. Exits with 1 where a client does not list all of them. `--only NAME...` runs some
clients, and keeps the recorded results of the others.
"""

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.harness.gateway import serve
from tests.harness.servers import pair
from tests.interop.agents.clients import (
    CLIENTS,
    AgentClient,
    Json,
    ListingError,
    list_tools,
    read_results,
    version,
    write,
)
from tests.interop.agents.torture import register
from tests.interop.environments import InstallError

_AT_A_TIME = 2


def _try(client: AgentClient, url: str, keys: dict[str, str], names: list[str]) -> Json:
    """Return the result of a client with each key, by the form of schemas."""
    result: Json = {"version": version(client), "tools": len(names)}
    for form, key in keys.items():
        try:
            listed = set(list_tools(client, url, key))
        except ListingError as error:
            print(f"{client.name}, {form}: {error}", flush=True)
            listed = set()
        result[form] = sum(any(one.endswith(name) for one in listed) for name in names)
    return result


def main() -> int:
    """Run what is chosen; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[client.name for client in CLIENTS])
    only = parser.parse_args().only
    chosen = [client for client in CLIENTS if only is None or client.name in only]
    results = read_results()
    with (
        tempfile.TemporaryDirectory() as folder,
        pair() as servers,
        serve(servers, Path(folder)) as gateway,
        gateway.client() as admin,
    ):
        names = register(admin)
        body = {"name": "whole", "scopes": ["tools:read", "tools:call"], "schemas": "full"}
        keys = {
            "portable": gateway.key,
            "full": admin.post("/keys", json=body).raise_for_status().json()["key"],
        }
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            running = {
                client: pool.submit(_try, client, f"{gateway.url}/mcp/all", keys, names) for client in chosen
            }
        for client, one in running.items():
            try:
                results[client.name] = one.result()
            except InstallError as error:
                print(f"{client.name}: {error}", file=sys.stderr)
    write(results)
    return int(any(one["portable"] < one["tools"] for one in results.values()))


if __name__ == "__main__":
    sys.exit(main())

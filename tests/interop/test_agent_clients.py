"""Released clients of agents list all tools of a registry whose schemas, unchanged, cost each of them the whole list.

All of them are started together, against one gateway. `python -m tests.interop.agents` also runs those that take long to install.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.harness.gateway import serve
from tests.harness.servers import Pair
from tests.interop.agents.clients import BEGIN, CLIENTS, END, PAGE, list_tools, read_results, render
from tests.interop.agents.torture import register
from tests.interop.environments import install, required


def test_released_clients_of_agents_list_all_tools(servers: Pair, tmp_path: Path) -> None:
    clients = [client for client in CLIENTS if client.is_tested]
    for client in clients:
        required(partial(install, client.name))
    with (
        serve(servers, tmp_path) as gateway,
        gateway.client() as admin,
        ThreadPoolExecutor(len(clients)) as pool,
    ):
        names = register(admin)
        running = {
            client.name: pool.submit(list_tools, client, f"{gateway.url}/mcp/all", gateway.key)
            for client in clients
        }
        missing = {name: sorted(set(names) - set(one.result())) for name, one in running.items()}
    assert not any(missing.values()), missing


def test_the_table_of_clients_is_what_was_recorded() -> None:
    results = read_results()
    assert results.keys() == {client.name for client in CLIENTS}
    assert all(one["portable"] == one["tools"] for one in results.values())
    text = PAGE.read_text()
    assert text[text.index(BEGIN) : text.index(END) + len(END)] == render(results)

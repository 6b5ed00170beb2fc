"""Every manual that the gateway serves is accepted whole by the models of each released client, whatever is registered.

The registry is that of `filled_registry`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.protocols.registry import PROTOCOLS
from tests.interop.clients import run_program, run_typescript
from tests.interop.environments import interpreter
from tests.interop.filled_registry import METHODS, TEMPLATES, FilledRegistry

HERE = Path(__file__).parent
OF_CLIENTS = frozenset(
    name for name, record in PROTOCOLS.items() if record.direct.versions and not record.is_connected
)
# What the plugins of each client have models for.
PLUGINS = {
    "models_v1.py": OF_CLIENTS - {"grpc", "webrtc"},
    "models_v0.py": OF_CLIENTS,
    "models.js": frozenset({"http", "sse", "streamable_http", "text", "mcp"}),
}


@dataclass(frozen=True)
class Served:
    """A manual of the gateway, stored at `path`; `readers` are the programs whose clients must accept it."""

    path: Path
    readers: tuple[str, ...]
    tools: int


@pytest.fixture(scope="module")
def client(
    large_registry: FilledRegistry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx2.Client]:
    """An admin of a gateway with the filled registry."""
    with large_registry.gateway(tmp_path_factory.mktemp("models")) as running, running.client() as admin:
        yield admin


@pytest.fixture(scope="module")
def manuals(client: httpx2.Client, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Served]:
    """The manuals of the gateway by the query that gives them."""
    folder = tmp_path_factory.mktemp("manuals")
    found: dict[str, Served] = {}

    def store(query: str, readers: tuple[str, ...]) -> None:
        body = client.get(f"/utcp?{query}").raise_for_status().content
        path = folder / f"{len(found)}.json"
        path.write_bytes(body)
        found[query] = Served(path, readers, len(json.loads(body)["tools"]))

    for version, readers in (("1", ("models_v1.py", "models.js")), ("0", ("models_v0.py",))):
        store(f"version={version}", readers)
        store(f"version={version}&protocol=http,streamable_http", readers)
        store(f"mode=direct&version={version}", readers)
        for reader in readers:
            protocols = ",".join(sorted(PLUGINS[reader]))
            store(f"mode=direct&version={version}&protocol={protocols}", (reader,))
    return found


def names(manual: Served) -> set[str]:
    return {tool["name"] for tool in json.loads(manual.path.read_text())["tools"]}


@pytest.mark.parametrize("provider", ["methods", "methods-manual"])
def test_methods_that_utcp_does_not_have_are_left_out_of_direct_manuals_and_counted(
    provider: str, client: httpx2.Client
) -> None:
    def manual(**query: str) -> tuple[int, int]:
        found = client.get(f"/providers/{provider}/utcp", params=query).raise_for_status()
        return len(found.json()["tools"]), int(found.headers["x-tools-left-out"])

    for version in ("0", "1"):
        assert manual(version=version) == (len(METHODS), 0)
        assert manual(version=version, mode="direct") == (len(METHODS) - 2, 2)


def test_the_manuals_are_of_the_whole_registry(manuals: dict[str, Served]) -> None:
    whole = names(manuals["version=1"])
    assert len(whole) > 500
    assert names(manuals["version=0"]) == whole
    for version in ("1", "0"):
        by_plugins = [
            query
            for query in manuals
            if "mode=direct" in query and "&protocol" in query and f"version={version}" in query
        ]
        named = set().union(*(names(manuals[query]) for query in by_plugins))
        # Programs and files are the gateway's own; MCP's tools are named by their servers; grpc and webrtc are of 0.x.
        elsewhere = {"cli", "file", "mcp"} | ({"grpc", "webrtc"} if version == "1" else {"text"})
        for protocol in TEMPLATES.keys() - elsewhere:
            assert f"{protocol}_{protocol}" in named


def test_tools_that_stream_are_streamable_http_where_the_client_calls_by_it(
    manuals: dict[str, Served],
) -> None:
    streams = {"sse_sse", "streamable_http_streamable_http"}
    for version, key, kind in (
        ("1", "tool_call_template", "call_template_type"),
        ("0", "tool_provider", "provider_type"),
    ):
        query = f"version={version}&protocol=http,streamable_http"
        assert names(manuals[query]) == names(manuals[f"version={version}"])
        tools = json.loads(manuals[query].path.read_text())["tools"]
        other = {tool["name"] for tool in tools if tool[key][kind] != "http"}
        assert streams <= other
        assert not other & {"http_http", "tcp_tcp", "methods_get_things_id"}


def read_by(reader: str, paths: list[Path]) -> dict[str, Any]:
    """Return what the released client rejects of each manual (tests/interop/models_v1.py)."""
    if reader.endswith(".js"):
        return run_typescript(reader, [str(path) for path in paths])
    environment = {"models_v1.py": "utcp-plugins", "models_v0.py": "utcp0"}[reader]
    return run_program([str(interpreter(environment)), str(HERE / reader), *map(str, paths)])


@pytest.mark.parametrize("reader", PLUGINS)
def test_released_models_accept_every_manual(reader: str, manuals: dict[str, Served]) -> None:
    mine = {query: served for query, served in manuals.items() if reader in served.readers}
    rejected = read_by(reader, [served.path for served in mine.values()])
    assert {query: rejected[str(served.path)] for query, served in mine.items()} == dict.fromkeys(mine)

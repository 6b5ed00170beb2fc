"""Every manual that the gateway serves is accepted whole by the models of each released client, whatever is registered.

The registry holds all torture documents of the converter, public documents (300 where the corpus has been downloaded; 40 of
them under continuous integration), and a provider with a tool of each protocol and of each http_method.
"""

import json
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.protocols.registry import PROTOCOLS
from benchmarks.corpus.download import CorpusUnavailableError, corpus
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.interop.clients import run_program, run_typescript
from tests.interop.environments import interpreter
from tests.unit.openapi.conftest import document
from tests.unit.openapi.test_torture import CASES as TORTURE
from tests.unit.openapi.test_torture_cases import CASES as TORTURE_FILES
from tests.unit.openapi.test_torture_cases import given

HERE = Path(__file__).parent
DOCUMENTS = 40 if os.environ.get("CI") else 300
# Larger ones take long to register, and consist of more of the same.
MAX_BYTES = 50_000
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
# Each protocol with the members that its template must have.
TEMPLATES: dict[str, dict[str, Any]] = {
    "http": {"url": "https://a.example/x/{id}"},
    "sse": {"url": "https://a.example/events"},
    "streamable_http": {"url": "https://a.example/lines"},
    "graphql": {"url": "https://a.example/graphql", "query": "query q { hello }", "operation_name": "q"},
    "grpc": {"host": "a.example", "port": 443, "service_name": "s.S", "method_name": "M"},
    "websocket": {"url": "wss://a.example/socket"},
    "tcp": {"host": "a.example", "port": 7, "message_delimiter": "\x00"},
    "udp": {"host": "a.example", "port": 7},
    "cli": {"commands": [{"command": "/bin/echo UTCP_ARG_word_UTCP_END"}]},
    "text": {"content": "a text"},
    "file": {"file_path": "/srv/text"},
    "mcp": {"config": {"mcpServers": {"server": {"transport": "http", "url": "https://a.example/mcp"}}}, "tool_name": "t"},
    "webrtc": {"signaling_server": "https://a.example/signal", "peer_id": "p"},
}  # fmt: skip
# What the plugins of each client have models for.
PLUGINS = {
    "models_v1.py": frozenset(PROTOCOLS) - {"grpc", "webrtc"},
    "models_v0.py": frozenset(PROTOCOLS),
    "models.js": frozenset({"http", "sse", "streamable_http", "text", "mcp"}),
}


@dataclass(frozen=True)
class Served:
    """A manual of the gateway, stored at `path`; `readers` are the programs whose clients must accept it."""

    path: Path
    readers: tuple[str, ...]
    tools: int


def manual_of(protocol: str, template: dict[str, Any]) -> dict[str, Any]:
    tool = {
        "name": protocol, "description": "Costs $5", "inputs": {"type": "object", "properties": {}},
        "tool_call_template": {"call_template_type": protocol, **template},
    }  # fmt: skip
    return {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": [tool]}


def every_method() -> dict[str, Any]:
    """Return a document with an operation of each http_method, and a manual with one of each."""
    operations = {method.lower(): {"responses": {"200": {"description": "ok"}}} for method in METHODS}
    return document({"/things/{id}": operations})


def sources() -> list[tuple[str, dict[str, Any]]]:
    """Return the sources of all providers, and the names of these."""
    texts = [json.dumps(document(case.paths, **case.rest)) for case in TORTURE.values()]
    texts += [given(case).decode("utf-8", "replace") for case in TORTURE_FILES if "coded" not in case]
    found: list[tuple[str, dict[str, Any]]] = [
        (f"torture-{index}", {"document": text}) for index, text in enumerate(texts)
    ]
    found += [(name, {"manual": manual_of(name, members)}) for name, members in TEMPLATES.items()]
    found.append(("methods", {"document": every_method()}))
    tools = [
        manual_of("http", {"url": "https://a.example/", "http_method": method})["tools"][0] | {"name": method}
        for method in METHODS
    ]
    found.append(("methods-manual", {"manual": {"utcp_version": "1.0.1", "tools": tools}}))
    try:
        documents = [path for path in corpus() if path.stat().st_size < MAX_BYTES]
    except CorpusUnavailableError:
        documents = []
    chosen = sorted(random.Random("manuals").sample(documents, min(DOCUMENTS, len(documents))))
    found += [(f"public-{index}", {"document": path.read_text("utf-8")}) for index, path in enumerate(chosen)]
    return found


@contextmanager
def filled_gateway(servers: Pair, folder: Path, *, page_size: int = 1_000) -> Iterator[RunningGateway]:
    """Run a gateway with the filled registry; `page_size` is that of the list of tools of MCP."""
    with (
        serve(
            servers, folder, PROGRAMS="/bin/echo", FILE_FOLDERS="/srv", MCP_PAGE_SIZE=str(page_size)
        ) as running,
        running.client() as admin,
    ):

        def register(registration: tuple[str, dict[str, Any]]) -> int:
            name, source = registration
            options: dict[str, Any] = {"allow_empty": True}
            if "document" in source:
                options["base_url"] = "https://documents.example/"
            body = {"name": name, "source": source, "options": options}
            status: int = admin.post("/providers", json=body).status_code
            assert status == 201 or (status == 422 and name.startswith("torture")), (name, status)
            return status

        with ThreadPoolExecutor(4) as threads:
            statuses = list(threads.map(register, sources()))
        # Some torture documents are no documents, and are rejected.
        assert statuses.count(201) > len(statuses) * 0.9
        yield running


@pytest.fixture(scope="module")
def client(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """An admin of a gateway with the filled registry."""
    with filled_gateway(servers, tmp_path_factory.mktemp("models")) as running, running.client() as admin:
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

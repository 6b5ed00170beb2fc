"""A registry that is filled once in each worker for all tests that list, export and call large catalogues.

It holds all torture documents of the converter, public documents (300 where the corpus has been downloaded; 40 of them under
continuous integration), and a provider with a tool of each protocol and of each http_method. Each module of tests has a copy of its
own (`FilledRegistry.gateway`).
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

from app.security.vault import KeyRing
from benchmarks.corpus.download import CorpusUnavailableError, corpus
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.unit.openapi.conftest import document
from tests.unit.openapi.test_torture import CASES as TORTURE
from tests.unit.openapi.test_torture_cases import given, read_cases

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
    texts += [given(case).decode("utf-8", "replace") for case in read_cases() if "coded" not in case]
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


@dataclass(frozen=True)
class FilledRegistry:
    """A database with the filled registry, sealed with `sealing_keys`. No gateway may run on it while it is copied."""

    servers: Pair
    database_url: str
    sealing_keys: str

    @contextmanager
    def gateway(self, folder: Path, *, page_size: int = 1_000) -> Iterator[RunningGateway]:
        """Run a gateway on a copy of the database; `page_size` is that of the list of tools of MCP."""
        dsn = self.servers.copy_database(self.database_url)
        try:
            with _serve(self.servers, folder, dsn, self.sealing_keys, page_size) as running:
                yield running
        finally:
            self.servers.drop_database(dsn)


@contextmanager
def filled_registry(servers: Pair, folder: Path) -> Iterator[FilledRegistry]:
    """Fill a database by the HTTP API of a gateway, which then ends."""
    dsn = servers.create_database()
    keys = KeyRing.generate("test")
    with _serve(servers, folder, dsn, keys, 1_000) as running, running.client() as admin:

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
    yield FilledRegistry(servers, dsn, keys)
    servers.drop_database(dsn)


@contextmanager
def _serve(
    servers: Pair, folder: Path, dsn: str, sealing_keys: str, page_size: int
) -> Iterator[RunningGateway]:
    with serve(
        servers, folder, database_url=dsn, SEALING_KEYS=sealing_keys, MCP_PAGE_SIZE=str(page_size),
        PROGRAMS="/bin/echo", FILE_FOLDERS="/srv",
    ) as running:  # fmt: skip
        yield running

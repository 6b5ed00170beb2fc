"""Every protocol is one record, which alone is asked what is particular to it; and connections are guarded."""

import ast
import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import utcp_gateway_webrtc

import app.protocols
from app.core.settings import Settings
from app.outbound.http import Engine
from app.protocols.base import AdapterContext
from app.protocols.registry import BUILT_IN, PROTOCOLS, Adapters, Protocols
from app.security.masking import Masker

PACKAGE = Path(app.protocols.__file__).parent
APP = PACKAGE.parent
WEBRTC = Path(utcp_gateway_webrtc.__file__).parent
_SHARED = {"shared", "requests", "responses", "command_routing", "__pycache__"}


def test_every_package_of_a_protocol_is_listed_under_its_name() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if any(path.glob("*.py"))} - _SHARED
    assert packages == {record.name for record in BUILT_IN}
    for record in BUILT_IN:
        assert record.adapter.startswith(f"app.protocols.{record.name}.")


def test_every_adapter_is_built_under_its_own_name(engine: Engine) -> None:
    adapters = Adapters(AdapterContext(engine, engine.network, Masker(), Settings(_env_file=None)))
    assert {adapter.name for adapter in adapters.values()} == set(adapters) == set(PROTOCOLS)


def test_every_record_names_the_protocol_as_its_template_does() -> None:
    for record in PROTOCOLS.values():
        assert record.template.model_fields["call_template_type"].default == record.name


def test_aliases_are_read_in_any_spelling() -> None:
    assert PROTOCOLS.canonical(" HTTP-Stream ") == "streamable_http"
    assert PROTOCOLS.canonical("ws") == "websocket"
    assert PROTOCOLS.canonical("Unknown") == "unknown"


@pytest.mark.parametrize("changes", [{}, {"name": "other"}, {"name": "other", "aliases": ("http",)}])
def test_a_name_or_alias_that_is_taken_is_rejected(changes: dict[str, Any]) -> None:
    twin = dataclasses.replace(PROTOCOLS["websocket"], **changes)
    with pytest.raises(ValueError, match="two protocols called"):
        Protocols([*BUILT_IN, twin])


def test_records_are_imported_without_the_libraries_of_their_adapters() -> None:
    libraries = {name for record in BUILT_IN for name in record.libraries}
    light = [PACKAGE / "record.py", PACKAGE / "registry.py"]
    for record in BUILT_IN:
        folder = PACKAGE / record.name
        light += [folder / "__init__.py", folder / "record.py", folder / "template.py"]
    light += [WEBRTC / name for name in ("__init__.py", "record.py", "template.py")]
    libraries |= {"aiortc", "aioice"}
    for path in light:
        for name in _imported(path):
            assert name.partition(".")[0] not in libraries, path
            assert not name.endswith(".adapter"), path


MISSING_LIBRARY = """
import json, sys
from app.core.errors import InvalidInput
from app.protocols.registry import PROTOCOLS

class Hidden:
    library = ""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.library:
            raise ModuleNotFoundError(name=name)

hidden = Hidden()
sys.meta_path.insert(0, hidden)
found = {}
for record in PROTOCOLS.values():
    for library in sorted(record.libraries):
        hidden.library = library.partition(".")[0]
        for name in [one for one in sys.modules if one.partition(".")[0] == hidden.library]:
            del sys.modules[name]
        for name in [one for one in sys.modules if one.startswith("app.protocols.") and one.count(".") > 2]:
            if not name.endswith((".record", ".template")):
                del sys.modules[name]
        try:
            record.load()(None).prepare({})
        except InvalidInput as error:
            found[f"{record.name} {library}"] = [error.errors[0].pointer, error.detail]
print(json.dumps(found))
"""


def test_a_protocol_without_its_library_names_the_extra_to_install() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MISSING_LIBRARY], capture_output=True, text=True, check=True, timeout=120
    )
    hint = "Protocol {} needs the extra `{}`: pip install 'utcp-gateway[{}]'."
    expected = {
        f"{record.name} {library}": [
            "/call_template_type",
            hint.format(record.name, record.extra, record.extra),
        ]
        for record in BUILT_IN
        for library in record.libraries
    }
    assert expected
    assert json.loads(ran.stdout) == expected


# Words that have other meanings as well; where they stand tells which.
AMBIGUOUS = {"http", "text", "file", "ws", "mcp"}
OTHER_MEANINGS = {
    ("calls/response/masking.py", "grpc"): "a media type",
    ("core/media_types.py", "graphql"): "a media type",
    ("cli/server.py", "http"): "a setting of uvicorn",
    ("openapi/formats/postman_bodies.py", "graphql"): "a kind of body in Postman's format",
    ("openapi/formats/postman_urls.py", "http"): "the scheme of a URL without one",
    ("openapi/conversion/assemble.py", "http"): "every operation of an OpenAPI document is called by HTTP",
    ("formats/utcp/render.py", "http"): "every tool of this gateway is called by HTTP",
    ("formats/utcp/render.py", "streamable_http"): "tools that stream, for clients that call them by it",
    ("formats/utcp/render.py", "http_stream"): "the same in UTCP 0.x",
    ("api/providers/request_bodies.py", "http"): "documentation: an example of a request",
    ("providers/registration/input_models.py", "http"): "documentation: an example of a request",
    ("providers/registration/input_models.py", "tcp"): "documentation: an example of a request",
    ("calls/log/entries.py", "ubp"): "the interface by which a call came",
    ("agents/ubp/commands.py", "ubp"): "the interface by which a call came",
    ("agents/ubp/command_route.py", "ubp"): "a member of the state of requests",
    ("agents/ubp/websocket.py", "ubp"): "a member of the state of requests",
    ("agents/ubp/websocket.py", "websocket"): "how an executor is connected",
    ("agents/ubp/grpc_server.py", "websocket"): "a type of scopes of ASGI",
    ("agents/ubp/grpc_server.py", "grpc"): "how an executor is connected",
    ("agents/ubp/routes.py", "websocket"): "documentation: an example of a response",
    ("server/middleware.py", "websocket"): "a type of scopes of ASGI",
    ("server/metrics_collectors.py", "websocket"): "how an executor is connected",
    ("server/metrics_collectors.py", "grpc"): "how an executor is connected",
    ("formats/toolclad/tools.py", "http"): "the call template of a manifest's request",
    ("formats/toolclad/tools.py", "cli"): "the call template of a manifest's command",
    ("formats/toolclad/tools.py", "mcp"): "the call template of a manifest's tool of a server",
    ("agents/tests/definition.py", "filesystem"): "documentation: an example of the name of a plugin",
    ("storage/database/dsn.py", "postgres"): "the scheme of a DSN",
    ("providers/plugins/configuration.py", "postgres"): "the scheme of a DSN",
    ("cli/embedded/postgres.py", "postgres"): "the name of a folder",
    ("console/forms/provider_draft.py", "graphql"): "a kind of source that a form offers",
    ("console/forms/provider_draft.py", "grpc"): "a kind of source that a form offers",
    ("console/forms/provider_draft.py", "mcp"): "a kind of source that a form offers",
    ("console/views/connect_snippets.py", "http"): "a transport in the configuration of MCP clients",
    ("cli/server.py", "ubp"): "a member of the state of requests",
    ("main.py", "ubp"): "a member of the state of requests",
}


def test_nothing_outside_decides_by_the_name_of_a_protocol() -> None:
    names = {name for record in BUILT_IN for name in (record.name, *record.aliases)}
    quoted = re.compile(f"""["'](?:{"|".join(map(re.escape, sorted(names)))})["']""")
    found = set()
    for path in sorted(APP.rglob("*.py")):
        if PACKAGE in path.parents:
            continue
        text = path.read_text()
        if quoted.search(text) is None:
            continue
        for constant, around in _constants(ast.parse(text)):
            if constant not in names:
                continue
            if constant not in AMBIGUOUS or re.search(
                "protocol|template|type_key|provider_type", around, re.IGNORECASE
            ):
                found.add((str(path.relative_to(APP)), constant))
    assert found == OTHER_MEANINGS.keys()


def _constants(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Each text in the code, with the expression or assignment around it that says what it is."""
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        around: ast.AST = parents[node]
        if isinstance(around, ast.Dict):
            pairs = zip(around.keys, around.values, strict=True)
            beside = [pair for pair in pairs if node in pair]
            yield (
                node.value,
                " ".join(ast.unparse(part) for pair in beside for part in pair if part is not None),
            )
            continue
        while isinstance(around, ast.Set | ast.List | ast.Tuple | ast.Call):
            around = parents[around]
        yield node.value, ast.unparse(around) if isinstance(around, ast.expr | ast.stmt | ast.keyword) else ""


DOORS = {
    "socket", "aiohttp", "httpx", "httpx2", "urllib.request", "http.client", "requests", "websockets", "grpc", "grpc.aio",
    "mcp", "mcp_types", "aiortc", "aioice",
}  # fmt: skip
# The command line is a client of the gateway, the embedded servers are servers. OpenTelemetry's
# exporter speaks to the operator's own collector, whose address no client chooses. The conversion's processes speak to each
# other over pairs of sockets. Executors connect to a server of gRPC, which opens no connections.
OPEN = (
    "outbound", "cli", "embedded", "core/telemetry/otlp.py", "openapi/process/server.py", "openapi/process/workers.py",
    "agents/ubp/grpc_server.py", "agents/ubp/grpc_start.py",
)  # fmt: skip
# These get connections, addresses and programs from `outbound` and `processes` only; so does the package of WebRTC.
LIBRARIES = {
    "protocols/grpc": {"grpc", "grpc.aio"},
    "protocols/mcp": {"httpx2", "mcp", "mcp_types"},
    "protocols/shared": {"websockets"},
}


def test_only_the_outbound_package_opens_sockets() -> None:
    found = []
    for path in APP.rglob("*.py"):
        place = path.relative_to(APP)
        if str(place).startswith(OPEN):
            continue
        may = LIBRARIES.get("/".join(place.parts[:2]), set())
        found += [f"{place}: {name}" for name in _imported(path) if name in DOORS - may]
    found += [
        f"{path.name}: {name}"
        for path in WEBRTC.glob("*.py")
        for name in _imported(path)
        if name in DOORS - {"aiortc", "aioice"}
    ]
    assert found == []


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""

"""Every protocol is listed, and nothing goes round the one door out."""

import ast
from pathlib import Path

import app.protocols
from app.outbound.http import Engine
from app.protocols.base import Means
from app.protocols.registry import ADAPTERS, Adapters
from app.security.masking import Masker
from app.settings import Settings

ROOM = Path(app.protocols.__file__).parent
NO_ADAPTERS = {"__init__", "base", "registry", "shared", "__pycache__"}
APP = ROOM.parent


def test_every_file_of_the_room_is_a_listed_adapter() -> None:
    files = {path.stem for path in ROOM.iterdir()} - NO_ADAPTERS
    assert files == {place.partition(":")[0] for place in ADAPTERS.values()}


def test_every_adapter_is_built_under_its_own_name(engine: Engine) -> None:
    adapters = Adapters(Means(engine, engine.network, Masker(), Settings(_env_file=None)))
    assert {adapter.name for adapter in adapters.values()} == set(adapters) == set(ADAPTERS)
    for name in ("prepare", "origin", "safe", "discover", "call", "describe", "aclose"):
        assert all(callable(getattr(adapter, name)) for adapter in adapters.values())


def test_only_the_outbound_room_opens_sockets() -> None:
    doors = {
        "socket",
        "aiohttp",
        "httpx",
        "httpx2",
        "urllib.request",
        "http.client",
        "requests",
        "websockets",
        "grpc",
        "grpc.aio",
        "mcp",
        "mcp_types",
        "aiortc",
        "aioice",
    }
    # The command line is a client of the gateway, the embedded servers are servers.
    may = {"outbound", "cli", "embedded"}
    # OpenTelemetry's exporter speaks to the operator's own collector, whose address no caller chooses.
    exporter = APP / "telemetry" / "otlp.py"
    found = []
    for path in APP.rglob("*.py"):
        if path.relative_to(APP).with_suffix("").parts[0] in may or path == exporter:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            found += [f"{path.relative_to(APP)}: {name}" for name in names if name in doors]
    assert found == []

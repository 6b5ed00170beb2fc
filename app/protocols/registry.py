"""The one list of protocols, which other packages query instead of comparing names of protocols.

A package that is installed beside the gateway adds a protocol by an entry point of the group
`utcp_gateway.protocols`, whose value is a ProtocolRecord. Records are small; an adapter is imported when its
protocol is first used, because some of the libraries take longer than all the rest of the gateway.
"""

import asyncio
import threading
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, Final

from app.protocols.base import Adapter, AdapterContext
from app.protocols.cli.record import PROTOCOL as CLI
from app.protocols.file.record import PROTOCOL as FILE
from app.protocols.filesystem.record import PROTOCOL as FILESYSTEM
from app.protocols.graphql.record import PROTOCOL as GRAPHQL
from app.protocols.grpc.record import PROTOCOL as GRPC
from app.protocols.http.record import PROTOCOL as HTTP
from app.protocols.mcp.record import PROTOCOL as MCP
from app.protocols.postgres.record import PROTOCOL as POSTGRES
from app.protocols.record import ClientConfiguration, ProtocolRecord
from app.protocols.sse.record import PROTOCOL as SSE
from app.protocols.streamable_http.record import PROTOCOL as STREAMABLE_HTTP
from app.protocols.tcp.record import PROTOCOL as TCP
from app.protocols.text.record import PROTOCOL as TEXT
from app.protocols.ubp.record import PROTOCOL as UBP
from app.protocols.udp.record import PROTOCOL as UDP
from app.protocols.websocket.record import PROTOCOL as WEBSOCKET

BUILT_IN: Final = (
    HTTP, SSE, STREAMABLE_HTTP, TEXT, FILE, TCP, UDP, CLI, MCP, WEBSOCKET, GRPC, GRAPHQL, UBP, FILESYSTEM,
    POSTGRES,
)  # fmt: skip
"""The twelve of UTCP 0.x but `webrtc` in 1.x spelling, `file`, which 1.1 split off from `text`, and our own:
`ubp`, `filesystem` and `postgres`."""
PACKAGES: Final = {"webrtc": "utcp-gateway-webrtc"}
"""The distributions in `packages/` that add a protocol, by its name."""
DEFAULT: Final = HTTP.name
"""The protocol of a template that names none."""
ENTRY_POINTS: Final = "utcp_gateway.protocols"


class Protocols(Mapping[str, ProtocolRecord]):
    """The records by name. Raises ValueError where two have the same name or alias."""

    def __init__(self, records: Iterable[ProtocolRecord]) -> None:
        self._records: dict[str, ProtocolRecord] = {}
        self._names: dict[str, str] = {}
        for record in records:
            for spelling in (record.name, *record.aliases):
                if spelling in self._names:
                    raise ValueError(f"There are two protocols called {spelling}.")
                self._names[spelling] = record.name
            self._records[record.name] = record
        self.introspected = self._named("is_introspected")
        """Protocols whose servers publish no UTCP manual."""
        self.connected = self._named("is_connected")
        """Protocols whose tools are executed by programs that connect to the gateway."""
        self.local = self._named("may_be_local")
        """Protocols whose tools may start programs or read files on the gateway's own machine."""
        self.inheriting = self._named("inherits_template")
        """Protocols whose manuals may have tools without a call template."""
        self.direct_by_default = frozenset(name for name in self if self[name].direct.by_default)
        """Protocols that `mode=direct` includes by default."""
        self.socket_schemes = tuple(scheme for record in self.values() for scheme in record.socket_schemes)
        self.datagram_schemes = tuple(one for record in self.values() for one in record.datagram_schemes)
        self.tls_schemes = tuple(one for record in self.values() for one in record.tls_schemes)
        self.program_schemes = tuple(scheme for record in self.values() for scheme in record.program_schemes)

    def __getitem__(self, name: str) -> ProtocolRecord:
        return self._records[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def configuration(self, document: Any) -> ClientConfiguration | None:
        """Return the configuration of a protocol's own clients, as a call template; None for what is none."""
        if not isinstance(document, Mapping):
            return None
        found = (record.from_configuration(document) for record in self.values())
        return next((one for one in found if one is not None), None)

    def canonical(self, text: str) -> str:
        """Return the 1.x spelling of a protocol's name or alias.

        An unknown name is returned in lower case with `_` for `-`.
        """
        spelling = text.strip().lower().replace("-", "_")
        return self._names.get(spelling, spelling)

    def _named(self, attribute: str) -> frozenset[str]:
        return frozenset(name for name, record in self._records.items() if getattr(record, attribute))


def installed_records() -> list[ProtocolRecord]:
    """Return the records of installed packages; raise TypeError for an entry point that is not one."""
    found = []
    for entry in sorted(entry_points(group=ENTRY_POINTS)):
        record = entry.load()
        if not isinstance(record, ProtocolRecord):
            raise TypeError(f"The entry point {entry.name} of {ENTRY_POINTS} is not a ProtocolRecord.")
        found.append(record)
    return found


PROTOCOLS: Final = Protocols([*BUILT_IN, *installed_records()])


def describe_missing_package(protocol: str) -> str | None:
    """Return which package to install for a protocol; None where it is installed, or none is known."""
    package = PACKAGES.get(protocol)
    if package is None or protocol in PROTOCOLS:
        return None
    return f"Protocol {protocol} needs the package `{package}`: pip install {package}."


class Adapters(Mapping[str, Adapter[Any]]):
    """The adapters by protocol name; each is created when it is first used."""

    def __init__(self, context: AdapterContext, protocols: Protocols = PROTOCOLS) -> None:
        self._context = context
        self._protocols = protocols
        self._adapters: dict[str, Adapter[Any]] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Adapter[Any]:
        adapter = self._adapters.get(name)
        return self._create(name) if adapter is None else adapter

    def __contains__(self, name: object) -> bool:
        return name in self._protocols

    def __iter__(self) -> Iterator[str]:
        return iter(self._protocols)

    def __len__(self) -> int:
        return len(self._protocols)

    async def load(self, name: str) -> None:
        """Import the adapter of a protocol in a thread; do nothing for an unknown protocol."""
        if name not in self._adapters and name in self._protocols:
            await asyncio.to_thread(self._protocols[name].load)

    async def aclose(self) -> None:
        """Close all adapters, with their connections, sessions and programs."""
        for adapter in self._adapters.values():
            await adapter.aclose()

    def _create(self, name: str) -> Adapter[Any]:
        create = self._protocols[name].load()
        # Manuals are read in threads.
        with self._lock:
            return self._adapters.setdefault(name, create(self._context))

"""The one list of protocols. An adapter is imported when its protocol is first used: some of the libraries
take longer than all the rest of the gateway.
"""

import asyncio
import importlib
import threading
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from app.protocols.base import Adapter, Means

ADAPTERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "http": "http:HttpAdapter",
        "sse": "sse:SseAdapter",
        "streamable_http": "streamable_http:StreamableHttpAdapter",
        "text": "text:TextAdapter",
        "file": "file:FileAdapter",
        "tcp": "tcp:TcpAdapter",
        "udp": "udp:UdpAdapter",
        "cli": "cli:CliAdapter",
        "mcp": "mcp:McpAdapter",
        "websocket": "websocket:WebsocketAdapter",
        "grpc": "grpc:GrpcAdapter",
        "graphql": "graphql:GraphqlAdapter",
        "webrtc": "webrtc:WebrtcAdapter",
    }
)
"""By `call_template_type`: the module in this package, and the class in it."""


class Adapters(Mapping[str, Adapter[Any]]):
    """One adapter of each protocol, made when it is first asked for."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._made: dict[str, Adapter[Any]] = {}
        self._turn = threading.Lock()

    def __getitem__(self, name: str) -> Adapter[Any]:
        made = self._made.get(name)
        return self._make(name) if made is None else made

    def __contains__(self, name: object) -> bool:
        return name in ADAPTERS

    def __iter__(self) -> Iterator[str]:
        return iter(ADAPTERS)

    def __len__(self) -> int:
        return len(ADAPTERS)

    async def ready(self, name: str) -> None:
        """Imports what the protocol needs, if there is such a protocol, beside the event loop."""
        if name not in self._made and name in ADAPTERS:
            await asyncio.to_thread(adapter_class, name)

    async def aclose(self) -> None:
        """Lets go of what they hold."""
        for adapter in self._made.values():
            await adapter.aclose()

    def _make(self, name: str) -> Adapter[Any]:
        make = adapter_class(name)
        # Manuals are read in threads.
        with self._turn:
            made: Adapter[Any] = self._made.setdefault(name, make(self._means))
            return made


def adapter_class(name: str) -> Any:
    """The class of a protocol; KeyError for one that is not on the list."""
    module, _, attribute = ADAPTERS[name].partition(":")
    return getattr(importlib.import_module(f"app.protocols.{module}"), attribute)

"""The one list of protocols."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from app.protocols.base import Adapter, Means
from app.protocols.cli import CliAdapter
from app.protocols.file import FileAdapter
from app.protocols.graphql import GraphqlAdapter
from app.protocols.grpc import GrpcAdapter
from app.protocols.http import HttpAdapter
from app.protocols.mcp import McpAdapter
from app.protocols.sse import SseAdapter
from app.protocols.streamable_http import StreamableHttpAdapter
from app.protocols.tcp import TcpAdapter
from app.protocols.text import TextAdapter
from app.protocols.udp import UdpAdapter
from app.protocols.websocket import WebsocketAdapter

ADAPTERS = (
    HttpAdapter,
    SseAdapter,
    StreamableHttpAdapter,
    TextAdapter,
    FileAdapter,
    TcpAdapter,
    UdpAdapter,
    CliAdapter,
    McpAdapter,
    WebsocketAdapter,
    GrpcAdapter,
    GraphqlAdapter,
)


def build_adapters(means: Means) -> Mapping[str, Adapter[Any]]:
    """One adapter of each protocol, by its `call_template_type`."""
    adapters: tuple[Callable[[Means], Adapter[Any]], ...] = ADAPTERS
    built = [make(means) for make in adapters]
    return MappingProxyType({adapter.name: adapter for adapter in built})

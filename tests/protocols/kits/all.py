"""The list of kits."""

import sys
from functools import cache

from app.core.settings import Settings
from tests.protocols.kits.base import Kit
from tests.protocols.kits.cli import MISSING, CliKit
from tests.protocols.kits.graphql import GraphqlKit
from tests.protocols.kits.grpc import GrpcKit
from tests.protocols.kits.http import HttpKit
from tests.protocols.kits.local import ROOT, FilesystemKit, PostgresKit
from tests.protocols.kits.mcp import McpKit
from tests.protocols.kits.sockets import TcpKit, UdpKit
from tests.protocols.kits.streams import FOLDER, FileKit, SseKit, StreamableHttpKit, TextKit
from tests.protocols.kits.ubp import UbpKit
from tests.protocols.kits.webrtc import WebrtcKit
from tests.protocols.kits.websocket import WebsocketKit

KITS: tuple[Kit, ...] = (
    HttpKit(),
    SseKit(),
    StreamableHttpKit(),
    TextKit(),
    FileKit(),
    TcpKit(),
    UdpKit(),
    CliKit(),
    McpKit(),
    WebsocketKit(),
    GrpcKit(),
    WebrtcKit(),
    GraphqlKit(),
    UbpKit(),
    FilesystemKit(),
    PostgresKit(),
)


@cache
def settings() -> Settings:
    """What an operator allows for these tests; built once, since that takes longer than most calls."""
    return Settings(
        _env_file=None,
        programs=(sys.executable, MISSING),
        file_folders=(str(FOLDER),),
        filesystem_folders=(str(ROOT),),
    )

"""The list of kits."""

from app.settings import Settings
from tests.protocols.kits.base import Kit
from tests.protocols.kits.grpc import GrpcKit
from tests.protocols.kits.http import HttpKit
from tests.protocols.kits.sockets import TcpKit, UdpKit
from tests.protocols.kits.streams import FOLDER, FileKit, SseKit, StreamableHttpKit, TextKit

KITS: tuple[Kit, ...] = (
    HttpKit(),
    SseKit(),
    StreamableHttpKit(),
    TextKit(),
    FileKit(),
    TcpKit(),
    UdpKit(),
    GrpcKit(),
)


def settings() -> Settings:
    """What an operator allows for these tests."""
    return Settings(_env_file=None, file_folders=(str(FOLDER),))

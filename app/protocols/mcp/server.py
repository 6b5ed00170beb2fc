"""The settings by which an MCP server is reached, and the error that it returns."""

from dataclasses import dataclass, field

from app.outbound.egress import EgressSettings
from app.protocols.shared.programs import ProgramCommand


@dataclass(frozen=True, slots=True)
class McpServerSettings:
    """A `url` with `headers`, or a program's `command`.

    `key` is a hash, equal for equal settings of the same scope only. `scope` is that of the engine's
    requests; b"" where each has a connection of its own.
    """

    key: bytes
    transport: str
    url: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    command: ProgramCommand | None = None
    egress: EgressSettings | None = None
    terminate_on_close: bool = True
    scope: bytes = b""


class ErrorReply(Exception):
    """The server returned an error (JSON-RPC 2.0 section 5.1)."""

    def __init__(self, code: int, message: str, data: object) -> None:
        super().__init__(code)
        self.code, self.message, self.data = code, message, data

"""Where a call template sends to, as an origin (RFC 6454): what credentials are allowed for, and what is
guarded, approved and counted as one upstream.

`https://host[:port]` and the like for URLs (no port that the scheme implies), `tcp://host:port` for sockets,
`grpcs://` for gRPC over TLS, `cli:///usr/bin/x` and `stdio:///usr/bin/x` for programs, `file:///srv/x` for
files.
"""

import posixpath
import shlex
from collections.abc import Mapping
from typing import Any, Final

from app.errors import Fault, InvalidInput
from app.text import pointer
from app.utcp.paths import HTTP, checked_host, compile_url
from app.utcp.templates import protocol_of

WEBSOCKET: Final = ("wss", "ws")
_OVER_HTTP: Final = frozenset({"http", "sse", "streamable_http", "graphql"})
_SOCKETS: Final = frozenset({"tcp", "udp", "grpc"})
_CONTENT: Final = frozenset({"text", "file"})


def template_origin(fields: Mapping[str, Any]) -> str:
    """The one origin of a template in 1.x spelling, its variables written out.

    Raises InvalidInput, with pointers into the template, where there is none that is fixed and legal.
    """
    protocol = protocol_of(fields)
    if protocol in _OVER_HTTP:
        return compile_url(str(fields.get("url", ""))).origin
    if protocol in _SOCKETS:
        return _socket(protocol, fields)
    if protocol == "websocket":
        return compile_url(str(fields.get("url", "")), schemes=WEBSOCKET).origin
    if protocol == "webrtc":
        url = str(fields.get("signaling_server", ""))
        schemes = WEBSOCKET if url.strip().lower().startswith("ws") else HTTP
        return compile_url(url, at="/signaling_server", schemes=schemes).origin
    if protocol == "cli":
        return "cli://" + "+".join(_programs(fields))
    if protocol == "mcp":
        return _mcp(fields)
    if protocol == "file":
        return f"file://{posixpath.normpath(str(fields.get('file_path', '')))}"
    return f"{protocol}://"


def destination(fields: Mapping[str, Any]) -> str:
    """The origin of a stored template, or where its variables decide that, the text that names it."""
    try:
        return template_origin(fields)
    except InvalidInput:
        pass
    if "host" in fields:
        return f"{protocol_of(fields)}://{fields['host']}:{fields.get('port')}"
    servers = (fields.get("config") or {}).get("mcpServers") or {}
    named = [fields.get("signaling_server"), *(server.get("url") for server in servers.values())]
    return " ".join(text for text in named if text)


def is_content(fields: Mapping[str, Any]) -> bool:
    """Whether the template is a document or an answer itself, and nothing is asked."""
    return protocol_of(fields) in _CONTENT


def parts_of(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The template as one for each server that it names: `mcp` may name several."""
    if protocol_of(fields) != "mcp":
        return [dict(fields)]
    config = fields["config"]
    return [
        {**fields, "config": {**config, "mcpServers": {name: server}}}
        for name, server in config["mcpServers"].items()
    ]


def split_command(command: str, *, at: str) -> list[str]:
    """A command line as a POSIX shell would split it into words, of which none is ever given to a shell.

    Raises InvalidInput for quotes that do not end, and for an empty one.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        fault = Fault(at, "Give a program and its arguments; quotes must end.")
        raise InvalidInput("The command cannot be read.", errors=[fault])
    return words


def _socket(protocol: str, fields: Mapping[str, Any]) -> str:
    host = checked_host(str(fields.get("host", "")), at="/host")
    scheme = "grpcs" if protocol == "grpc" and fields.get("use_ssl") else protocol
    return f"{scheme}://{host}:{fields.get('port')}"


def _programs(fields: Mapping[str, Any]) -> list[str]:
    commands = [
        (step["command"], pointer("/commands", n, "command")) for n, step in enumerate(_steps(fields))
    ]
    if fields.get("command_name"):
        commands = [(fields["command_name"], "/command_name")]
    return list(dict.fromkeys(split_command(text, at=at)[0] for text, at in commands))


def _steps(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = fields.get("commands") or []
    return steps


def _mcp(fields: Mapping[str, Any]) -> str:
    servers = fields["config"]["mcpServers"]
    if len(servers) != 1:
        fault = Fault("/config/mcpServers", "The template of a tool names one server.")
        raise InvalidInput("It cannot be told which server is meant.", errors=[fault])
    name, server = next(iter(servers.items()))
    at = pointer("/config/mcpServers", name)
    if server.get("transport") == "stdio":
        return f"stdio://{server['command']}"
    return compile_url(str(server.get("url", "")), at=pointer(at, "url")).origin

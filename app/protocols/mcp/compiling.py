"""Compilation of an `mcp` call template: the settings of its server, and the tool or resource to call."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from app.core import exact_json
from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.formats.toolclad.contract import Contract
from app.formats.utcp.call_template import compile_template
from app.outbound.attach import attach
from app.protocols.base import Call
from app.protocols.mcp.record import origin_of
from app.protocols.mcp.server import McpServerSettings
from app.protocols.mcp.template import McpServer, McpTemplate
from app.protocols.shared.described import describe_headers
from app.protocols.shared.programs import ProgramCommand, ProgramRules
from app.protocols.shared.sealed_fields import fill_sealed_fields
from app.security.masking import MASK


@dataclass(frozen=True, slots=True)
class McpTarget:
    """A compiled template. Sealed values are inserted into `fields` at a call."""

    origin: str
    name: str
    server: McpServer
    program: str | None
    folder: str
    tool: str | None
    uri: str | None
    resources: bool
    contract: Contract | None
    fields: Mapping[str, Any] = field(repr=False)


def compile_mcp(template: Mapping[str, Any], rules: ProgramRules) -> McpTarget:
    """Return a compiled template; raise InvalidInput, with pointers into it."""
    model = compile_template(template, McpTemplate)
    origin = origin_of(model.stored())
    name, server = next(iter(model.config.servers.items()))
    at = pointer("/config/mcpServers", name)
    program, folder = None, "/"
    if server.transport == "stdio":
        program = rules.program(server.command or "", at=f"{at}/command")
        folder = rules.folder(server.cwd, at=f"{at}/cwd")
        rules.check_names(server.env, at=f"{at}/env")
        rules.check_texts(
            {
                **{pointer(at, "args", index): word for index, word in enumerate(server.args)},
                **{pointer(at, "env", name): value for name, value in server.env.items()},
            }
        )
        rules.account()
    elif illegal := next((key for key in server.headers if not _is_token(key)), None):
        field_error = FieldError(pointer(at, "headers", illegal), "This is not a legal name of a header.")
        raise InvalidInput("A header cannot be sent.", errors=[field_error])
    return McpTarget(
        origin=origin,
        name=name,
        server=server,
        program=program,
        folder=folder,
        tool=model.tool_name,
        uri=model.resource_uri,
        resources=model.register_resources_as_tools,
        contract=model.toolclad if model.toolclad is not None and model.toolclad.mcp is not None else None,
        fields=model.stored(),
    )


def server_of(call: Call[McpTarget], *, masked: bool = False) -> McpServerSettings:
    """Return the server with the credentials of a call; InvalidInput for one that it cannot carry."""
    target = call.target
    config = fill_sealed_fields(target.fields, call.credentials, masked=masked)["config"]["mcpServers"][
        target.name
    ]
    wires = [wire for wire in call.credentials if wire.location != "field"]
    if target.program is not None:
        if wires:
            raise InvalidInput(
                f"A program takes credentials by env only, not as a {wires[0].location}: remove the "
                f"credential {wires[0].slot!r}, and pass its value by a variable."
            )
        words = (target.program, *(str(word) for word in config.get("args", ())))
        environment = dict(config.get("env", {}))
        command = ProgramCommand(words, environment, target.folder, reads_input=True)
        key = _key(["stdio", words, environment, target.folder, call.scope.hex()])
        return McpServerSettings(key, "stdio", command=command)
    url = str(config["url"])
    query = config.get("query") or {}
    safe = "*" if masked else ""
    if query:
        url += "?" + "&".join(f"{quote(k, safe='')}={quote(v, safe=safe)}" for k, v in query.items())
    url, headers = attach(url, list((config.get("headers") or {}).items()), wires, masked=masked)
    egress = call.egress
    transport = target.server.transport
    route = [egress.key.hex() if egress else "", call.scope.hex(), call.reuse]
    return McpServerSettings(
        _key([transport, url, headers, target.server.terminate_on_close, *route]),
        transport,
        url=url,
        headers=tuple(headers),
        egress=egress,
        terminate_on_close=target.server.terminate_on_close,
        scope=call.scope if call.reuse else b"",
    )


def server_arguments(target: McpTarget, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as the server's tool has them: with the defaults and names of a manifest."""
    contract = target.contract
    if contract is None or contract.mcp is None:
        return arguments
    names = contract.mcp.field_map
    return {names.get(name, name): value for name, value in (contract.defaults | arguments).items()}


def describe_server(call: Call[McpTarget]) -> dict[str, Any]:
    """Return the URL and headers, or the command and environment, of the server; secrets as `***`."""
    target = call.target
    server = server_of(call, masked=True)
    if server.command is None:
        return {"url": server.url, "headers": describe_headers(server.headers)}
    sealed = {wire.name for wire in call.credentials}
    at = pointer("/config/mcpServers", target.name, "env")
    environment_shown = {
        name: MASK if pointer(at, name) in sealed else value
        for name, value in server.command.environment.items()
    }
    return {
        "url": target.origin,
        "headers": {},
        "command": list(server.command.argv),
        "environment": environment_shown,
    }


def _key(parts: list[Any]) -> bytes:
    return hashlib.sha256(exact_json.dumps(parts)).digest()


def _is_token(name: str) -> bool:
    return bool(name) and all(
        character.isascii() and (character.isalnum() or character in "!#$%&'*+-.^_`|~") for character in name
    )

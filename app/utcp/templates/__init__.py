"""Call templates (1.x) and providers (0.x), read tolerantly and normalised to the spelling of 1.x."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from app.errors import Fault, InvalidInput
from app.text import clean_text, pointer, refuse_unstorable
from app.utcp.auth import faults_of, read_auth
from app.utcp.templates.base import CallTemplate
from app.utcp.templates.http import HttpTemplate, SseTemplate, StreamableHttpTemplate
from app.utcp.templates.local import CliTemplate, FileTemplate, TextTemplate
from app.utcp.templates.mcp import McpTemplate
from app.utcp.templates.remote import GraphqlTemplate, GrpcTemplate, WebrtcTemplate, WebsocketTemplate
from app.utcp.templates.sockets import TcpTemplate, UdpTemplate
from app.utcp.variables import VARIABLE

MODELS: Final[Mapping[str, type[CallTemplate]]] = MappingProxyType(
    {
        "http": HttpTemplate, "sse": SseTemplate, "streamable_http": StreamableHttpTemplate,
        "cli": CliTemplate, "websocket": WebsocketTemplate, "grpc": GrpcTemplate, "graphql": GraphqlTemplate,
        "tcp": TcpTemplate, "udp": UdpTemplate, "webrtc": WebrtcTemplate, "mcp": McpTemplate,
        "text": TextTemplate, "file": FileTemplate,
    }
)  # fmt: skip
"""The twelve of 0.x in 1.x spelling, and `file`, which 1.1 split off from `text`."""

PROTOCOLS: Final = frozenset(MODELS)
INTROSPECTED: Final = frozenset({"graphql", "grpc", "mcp"})
"""Protocols whose servers publish no UTCP manual: the gateway makes one of what they say of themselves."""

TYPE_KEYS: Final = ("call_template_type", "provider_type", "transport_type")
_RENAMED: Final = {"http_stream": "streamable_http", "streamablehttp": "streamable_http", "ws": "websocket"}


@dataclass(frozen=True, slots=True)
class Template:
    """A call template in 1.x spelling."""

    protocol: str
    model: CallTemplate = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        """Its own name."""
        return self.model.name


def read_template(raw: Any, *, at: str = "") -> Template:
    """Reads a call template or provider of any protocol and version.

    Raises InvalidInput, with pointers below `at`, for an unknown protocol and for what is not valid in it.
    """
    if not isinstance(raw, Mapping):
        raise InvalidInput("A call template must be an object", errors=[Fault(at, "Give an object.")])
    refuse_unstorable(_storable(raw), at=at)
    protocol = _protocol(raw, at=at)
    fields = {key: value for key, value in raw.items() if key not in TYPE_KEYS and key != "type"}
    protocol, fields, notes = _respelled(protocol, fields)
    name = fields.pop("name", None)
    if name is not None and not isinstance(name, str):
        raise InvalidInput("A name must be text", errors=[Fault(pointer(at, "name"), "Give text.", "string")])
    name = clean_text(name, at=pointer(at, "name")).strip() or None if name else None
    return Template(protocol, _open_to_variables({**fields, "name": name}, protocol, at=at), notes)


def compiled(fields: Mapping[str, Any], protocol: str, *, at: str = "") -> CallTemplate:
    """The typed form of a template in 1.x spelling; raises InvalidInput with pointers below `at`."""
    auths = {
        key: None if fields.get(key) is None else read_auth(fields[key], at=pointer(at, key))
        for key in ("auth", "auth_tools")
    }
    try:
        return MODELS[protocol].model_validate({**fields, **auths, "call_template_type": protocol})
    except ValidationError as error:
        detail = f"The {protocol} call template is not valid"
        raise InvalidInput(detail, errors=faults_of(error, at=at)) from None


def protocol_named(text: str) -> str:
    """The 1.x spelling of a protocol as anybody writes it."""
    given = text.strip().lower().replace("-", "_")
    return _RENAMED.get(given, given)


def protocol_of(raw: Mapping[str, Any]) -> str:
    """The protocol of a template in the 1.x spelling, as it is stored."""
    return str(raw.get("call_template_type") or "http")


def _open_to_variables(fields: Mapping[str, Any], protocol: str, *, at: str) -> CallTemplate:
    """As `compiled`; but one variable may stand where no other text could (`"port": "${PORT}"`): it is judged
    when its value is known.
    """
    try:
        return compiled(fields, protocol, at=at)
    except InvalidInput as error:
        wrong = {fault.pointer.removeprefix(at + "/") for fault in error.errors}
        kept = {key: fields[key] for key in wrong if _is_variable(fields.get(key))}
        if not kept:
            raise
        model = MODELS[protocol]
        required = {key for key in kept if model.model_fields[key].is_required()}
        others = {key: value for key, value in fields.items() if key not in kept}
        found = compiled({**others, **dict.fromkeys(required, 1)}, protocol, at=at)
        return found.model_copy(update=kept)


def _is_variable(value: Any) -> bool:
    return isinstance(value, str) and VARIABLE.fullmatch(value.strip()) is not None


def _storable(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Without the one value that 1.x writes with U+0000, which is read as `\\\\x00`."""
    return {key: value for key, value in raw.items() if key != "message_delimiter" or value != "\x00"}


def _protocol(raw: Mapping[str, Any], *, at: str) -> str:
    key = next((key for key in (*TYPE_KEYS, "type") if isinstance(raw.get(key), str)), None)
    if key is None:
        fault = Fault(pointer(at, "call_template_type"), "Name the protocol.", expected=sorted(PROTOCOLS))
        raise InvalidInput("call_template_type (or provider_type) is missing", errors=[fault])
    protocol = protocol_named(str(raw[key]))
    if protocol not in PROTOCOLS:
        fault = Fault(pointer(at, key), "UTCP knows no such protocol.", expected=sorted(PROTOCOLS))
        raise InvalidInput("The protocol is not known", errors=[fault])
    return protocol


def _respelled(protocol: str, fields: dict[str, Any]) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    if protocol == "text" and "file_path" in fields and fields.get("content") is None:
        return "file", fields, ("text with file_path is called file since UTCP 1.1.",)
    return protocol, fields, ()

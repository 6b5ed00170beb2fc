"""A tool as agents see it, and the hints about its effects that hosts ask their users by."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Self
from uuid import UUID

import orjson

from app.catalog.availability import executor_command
from app.catalog.tools import ToolView
from app.protocols.call_templates import protocol_of
from app.protocols.registry import PROTOCOLS
from app.toolclad.contract import risk_tier_of
from app.utcp.render import GATEWAYS

TITLE_LIMIT: Final = 80
"""Characters of a title: hosts show it in one line."""
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_STAMP_BYTES: Final = 12
_NO_PRESETS: Final[Mapping[str, Any]] = MappingProxyType({})
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_ID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Annotations:
    """What is known of the effects of a tool; None: nothing (MCP, `ToolAnnotations`)."""

    read_only: bool = False
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool = True

    @classmethod
    def of_method(cls, method: str | None) -> Self:
        """Return what a method of HTTP tells (RFC 9110 section 9.2): POST and PATCH may do anything."""
        if method in _SAFE:
            return cls(read_only=True)
        if method in ("PUT", "DELETE"):
            return cls(destructive=True, idempotent=True)
        return cls() if method is None else cls(idempotent=False)

    @classmethod
    def of_template(cls, template: Mapping[str, Any]) -> Self:
        """Return what a stored call template tells."""
        record = PROTOCOLS.get(protocol_of(template))
        known = cls.of_method(None if record is None else record.http_method(template))
        tier = risk_tier_of(template)
        # A manifest states what may happen; of a tool of high risk, the worst is assumed.
        return replace(known, read_only=False, destructive=True) if tier == "high" else known

    def overridden(self, given: Mapping[str, Any] | None) -> "Annotations":
        """Return them with what an operator has set; members that are None are not set, and those that are no
        hints about effects are not read.
        """
        changes = {
            name: value for name, value in (given or {}).items() if name in _HINTS and value is not None
        }
        if changes.get("read_only"):
            # A tool that only reads destroys nothing, whatever its method says.
            changes = {"destructive": None, "idempotent": None} | changes
        return replace(self, **changes) if changes else self


_HINTS: Final = frozenset(one.name for one in fields(Annotations))


def header_inputs_of(given: Mapping[str, Any] | None) -> Mapping[str, str]:
    """Return the inputs that clients repeat in headers, of what an operator has set about a tool."""
    return (given or {}).get("header_inputs") or _NO_HEADERS


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool as agents see it at one address.

    `name` is the name there, of at most 45 characters of `[A-Za-z0-9_-]`; `tool` is the canonical name.
    The schemas are kept as JSON: `inputs` and `outputs` parse them at each access. `inputs` has no preset
    arguments; the keys of `presets` are JSON pointers into the arguments. `stamp` is a digest of the others,
    the same in every worker. `registrar_tags` decide which keys with a restriction to tags see the tool.
    """

    name: str
    tool: str
    alias: str
    provider: str
    description: str
    inputs_json: bytes = field(repr=False)
    outputs_json: bytes = field(repr=False)
    tags: tuple[str, ...] = ()
    stamp: str = ""
    title: str = ""
    read_only: bool = False
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool = True
    publishes_outputs: bool = False
    outputs_withdrawn_at: datetime | None = None
    """When the gateway withdrew the published schema of the responses; None where it did not."""
    requires_approval: bool = False
    risk_tier: str | None = None
    """That of the ToolClad manifest which the tool comes from."""
    deprecated: bool = False
    presets: Mapping[str, Any] = field(default_factory=lambda: _NO_PRESETS, repr=False)
    is_renamed: bool = False
    """Whether `name` is that of a toolset, in place of the tool's own."""
    gateways: tuple[str, ...] = ()
    """The identities of the UTCP gateways that its calls pass."""
    registrar_tags: frozenset[str] = field(default=frozenset(), repr=False)
    streams: bool = False
    """Whether its responses are streams of values of their own."""
    chunk_size: int | None = None
    """The bytes of a piece of such a stream, where the upstream's own call template declares them."""
    header_inputs: Mapping[str, str] = field(default_factory=lambda: _NO_HEADERS)
    """The inputs that clients of MCP repeat in a header, with the tokens of the headers' names."""
    command_name: str | None = None
    """The command that executors of its provider execute; None where none does. Agents do not see it."""
    id: UUID = _NO_ID

    @property
    def inputs(self) -> dict[str, Any]:
        """The JSON Schema of the arguments object."""
        found: dict[str, Any] = orjson.loads(self.inputs_json)
        return found

    @property
    def outputs(self) -> dict[str, Any]:
        """The JSON Schema of the response; empty where it is unknown."""
        found: dict[str, Any] = orjson.loads(self.outputs_json)
        return found

    def stamped(self) -> "AgentTool":
        """Return the tool with its `stamp` computed."""
        return replace(self, stamp=_digest(self))


def agent_tool(view: ToolView, *, inputs_json: bytes, outputs_json: bytes) -> AgentTool:
    """Return a stored tool as agents see it, its schemas as JSON."""
    known = Annotations.of_template(view.call_template).overridden(view.annotations)
    return AgentTool(
        name=view.agent_name,
        tool=view.name,
        alias=view.alias,
        provider=view.provider,
        description=view.description,
        inputs_json=inputs_json,
        outputs_json=outputs_json,
        tags=tuple(view.tags),
        title=title_of(view.description),
        read_only=known.read_only,
        destructive=known.destructive,
        idempotent=known.idempotent,
        open_world=known.open_world,
        publishes_outputs=view.publish_output_schema,
        outputs_withdrawn_at=None if view.publish_output_schema else view.output_schema_withdrawn_at,
        requires_approval=view.requires_approval,
        risk_tier=risk_tier_of(view.call_template),
        deprecated=view.deprecated,
        gateways=tuple(view.call_template.get(GATEWAYS) or ()),
        registrar_tags=view.registrar_tags,
        streams=_streams(view.call_template),
        chunk_size=view.call_template.get("chunk_size"),
        header_inputs=header_inputs_of(view.annotations),
        command_name=executor_command(view.call_template),
        id=view.id,
    ).stamped()


def _streams(template: Mapping[str, Any]) -> bool:
    record = PROTOCOLS.get(protocol_of(template))
    return record is not None and record.streams(template)


def title_of(description: str) -> str:
    """Return the first line of a description without its full stop; "" where it is too long for a title."""
    first = description.strip().partition("\n")[0].strip()
    title = first.removesuffix(".")
    return title if len(title) <= TITLE_LIMIT and ". " not in title else ""


_NOT_SEEN: Final = frozenset({"stamp", "command_name", "id"})
_DIGESTED: Final = tuple(one.name for one in fields(AgentTool) if one.name not in _NOT_SEEN)


def _digest(tool: AgentTool) -> str:
    parts = [_plain(getattr(tool, name)) for name in _DIGESTED]
    text = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.blake2b(text, digest_size=_STAMP_BYTES).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return hashlib.blake2b(value, digest_size=_STAMP_BYTES).hexdigest()
    if isinstance(value, frozenset):
        return sorted(value)
    return dict(value) if isinstance(value, Mapping) else value

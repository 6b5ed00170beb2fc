"""A tool as agents see it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import orjson

from app.catalog.annotations import Annotations, header_inputs_of
from app.catalog.availability import executor_command
from app.catalog.tools import ToolView
from app.core import exact_json
from app.formats.toolclad.contract import get_risk_tier
from app.formats.utcp.render import GATEWAYS
from app.protocols.call_templates import protocol_of
from app.protocols.registry import PROTOCOLS
from app.search.conditions import ToolCondition, ToolConditions
from app.security.requirements import SlotAlternatives, slot_alternatives

TITLE_LIMIT: Final = 80
"""Characters of a title: hosts show it in one line."""
_STAMP_BYTES: Final = 12
_NO_PRESETS: Final[Mapping[str, Any]] = MappingProxyType({})
_NO_ID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool as agents see it at one address.

    `name` is the name there, of at most 45 characters of `[A-Za-z0-9_-]`; `tool` is the canonical name.
    `qualified_name` begins with the name of its toolset and a dot, where `name` begins with both.
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
    qualified_name: str = ""
    is_renamed: bool = False
    """Whether `name` is that of a toolset, in place of the tool's own."""
    gateways: tuple[str, ...] = ()
    """The identities of the UTCP gateways that its calls pass."""
    registrar_tags: frozenset[str] = field(default=frozenset(), repr=False)
    streams: bool = False
    """Whether its responses are streams of values of their own."""
    chunk_size: int | None = None
    """The bytes of a piece of such a stream, where the upstream's own call template declares them."""
    header_inputs: Mapping[str, str] = field(default_factory=lambda: _NO_PRESETS)
    """The inputs that clients of MCP repeat in a header, with the tokens of the headers' names."""
    command_name: str | None = None
    """The command that executors of its provider execute; None where none does. Agents do not see it."""
    average_response_size: int | None = None
    """What its source says of the bytes of its responses; None where it says nothing."""
    credential_slots: SlotAlternatives = ()
    """The slots of each alternative of credentials that its calls need. Agents do not see them."""
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

    @property
    def listed_names(self) -> tuple[str, str]:
        """The name and the alias in lists that have both: those of the registry unless it has another name
        here.
        """
        if not self.is_renamed:
            return self.tool, self.alias
        return self.qualified_name or self.name, self.name

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
        risk_tier=get_risk_tier(view.call_template),
        deprecated=view.deprecated,
        gateways=tuple(view.call_template.get(GATEWAYS) or ()),
        registrar_tags=view.registrar_tags,
        streams=_streams(view.call_template),
        chunk_size=view.call_template.get("chunk_size"),
        header_inputs=header_inputs_of(view.annotations),
        command_name=executor_command(view.call_template),
        average_response_size=view.average_response_size,
        credential_slots=slot_alternatives(view.security),
        id=view.id,
    ).stamped()


def toolset_call_url(base_url: str, toolset: str | None, name: str) -> str:
    """Return the URL at which this gateway takes calls of a tool by its name in a toolset; without a toolset,
    by that at the addresses that name none. Such names need no escaping.
    """
    within = f"/toolsets/{toolset}" if toolset else ""
    return f"{base_url}{within}/tools/{name}/call"


def condition_of(tool: AgentTool, conditions: ToolConditions) -> ToolCondition:
    """Return the condition of a tool, whatever it is called here."""
    return conditions.of(tool.tool, provider=tool.provider, slots=tool.credential_slots)


def _streams(template: Mapping[str, Any]) -> bool:
    record = PROTOCOLS.get(protocol_of(template))
    return record is not None and record.streams(template)


def title_of(description: str) -> str:
    """Return the first line of a description without its full stop; "" where it is too long for a title."""
    first = description.strip().partition("\n")[0].strip()
    title = first.removesuffix(".")
    return title if len(title) <= TITLE_LIMIT and ". " not in title else ""


_NOT_SEEN: Final = frozenset({"stamp", "command_name", "average_response_size", "credential_slots", "id"})
_DIGESTED: Final = tuple(one.name for one in fields(AgentTool) if one.name not in _NOT_SEEN)


def _digest(tool: AgentTool) -> str:
    parts = [_plain(getattr(tool, name)) for name in _DIGESTED]
    text = exact_json.dumps(parts, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.blake2b(text, digest_size=_STAMP_BYTES).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return hashlib.blake2b(value, digest_size=_STAMP_BYTES).hexdigest()
    if isinstance(value, frozenset):
        return sorted(value)
    return dict(value) if isinstance(value, Mapping) else value

"""The rendered tools of one provider; a manual is composed of these bytes."""

import gzip
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import structlog

from app.catalog.tools import ToolView, call_url
from app.core.errors import GatewayError
from app.formats.json_schema.normalize import make_publishable
from app.formats.json_schema.references import inline_references
from app.formats.utcp.render import (
    GATEWAYS,
    ManualToolEntry,
    ManualVersion,
    render_manual,
    render_tool_v0,
    render_tool_v1,
)
from app.openapi.assessment.slim import MAX_SLIMMED_BYTES, Slimmer
from app.protocols.call_templates import protocol_of
from app.protocols.registry import PROTOCOLS
from app.security.principal import Principal

_RENDERERS: Final = {0: render_tool_v0, 1: render_tool_v1}
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RenderedTool:
    """A tool of a manual as JSON bytes, and the names and tags that decide who sees it.

    `tags` are its own and its provider's; `registrar_tags` only those that a registrar set. `stamp` differs
    whenever the tool would be rendered differently. `body` is None for a tool that no manual can have.
    """

    tool_id: UUID
    provider_id: UUID
    name: str
    tags: frozenset[str]
    registrar_tags: frozenset[str]
    body: bytes | None = field(repr=False)
    stamp: str = ""
    streaming_body: bytes | None = field(default=None, repr=False)
    """The tool as clients call it by `streamable_http`; None where its responses are no streams."""


@dataclass(frozen=True, slots=True)
class ProviderManual:
    """The enabled tools of one provider, by name."""

    provider: str
    tools: tuple[RenderedTool, ...]


@dataclass(frozen=True, slots=True)
class ManualSelection:
    """Which tools go into a manual; `matching` are the ids of those that a search found, in the order in
    which the manual has them (None: no search).
    """

    version: ManualVersion
    provider: str | None = None
    tag: str | None = None
    matching: tuple[UUID, ...] | None = None
    streaming: bool = False
    """Whether tools whose responses are streams are to be called by UTCP's `streamable_http`."""

    @property
    def ranks(self) -> Mapping[UUID, int] | None:
        """The position of each tool that a search found; None: no search."""
        if self.matching is None:
            return None
        return {tool: rank for rank, tool in enumerate(self.matching)}


@dataclass(slots=True)
class Representation:
    """A manual as it is sent: a representation in the sense of RFC 9110. `etag` is that of the uncompressed
    form, `tools` the number of tools in it.
    """

    body: bytearray = field(repr=False)
    etag: str
    tools: int
    left_out: int = 0
    """The number of tools that were selected, but omitted because no UTCP client could read or call them."""
    _compressed: bytes | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """The number of bytes that it occupies in memory."""
        return len(self.body) + len(self._compressed or b"")

    def compressed(self) -> bytes:
        """Return the body in gzip, the same bytes on every replica (the header contains no time)."""
        if self._compressed is None:
            self._compressed = gzip.compress(self.body, compresslevel=6, mtime=0)
        return self._compressed

    @property
    def is_compressed(self) -> bool:
        """Whether the compressed form has been computed."""
        return self._compressed is not None


def render_tools(
    tools: Iterable[ToolView],
    *,
    version: ManualVersion,
    base_url: str,
    stamps: Mapping[UUID, str] = MappingProxyType({}),
    identity: str = "",
) -> list[RenderedTool]:
    """Render tools as entries of a manual (about 0.1 ms each). One that cannot be rendered has no body and is
    logged.

    `stamps` maps the id of each tool to its stamp; `identity` names this gateway in call templates.
    """
    prepared = []
    for tool in tools:
        entry = ManualToolEntry(
            name=tool.alias,
            description=tool.description,
            inputs=tool.inputs,
            outputs=tool.outputs,
            tags=tool.tags,
            call_url=call_url(base_url, tool.alias),
            provider=tool.provider,
            gateways=(*(tool.call_template.get(GATEWAYS) or ()), identity) if identity else (),
        )
        body = streaming_body = None
        try:
            body = render_entry(entry, version)
            if _streams(tool.call_template):
                size = tool.call_template.get("chunk_size")
                streaming_body = render_entry(replace(entry, as_stream=True, chunk_size=size), version)
        except (GatewayError, RecursionError, TypeError, ValueError) as error:
            _log.warning("a tool was omitted from the manual", tool=tool.name, error=type(error).__name__)
        tags = frozenset(tool.tags) | tool.registrar_tags
        stamp = stamps.get(tool.id, "")
        prepared.append(
            RenderedTool(
                tool.id, tool.provider_id, tool.name, tags, tool.registrar_tags, body, stamp, streaming_body
            )
        )
    return prepared


def render_entry(entry: ManualToolEntry, version: ManualVersion) -> bytes:
    """Return a tool of a manual as JSON; raise a GatewayError, RecursionError, TypeError or ValueError where
    it cannot be rendered.
    """
    body = _RENDERERS[version](entry)
    if version == 0 and len(body) > MAX_SLIMMED_BYTES:
        return _RENDERERS[version](_slimmed(entry))
    return body


def _streams(template: Mapping[str, Any]) -> bool:
    record = PROTOCOLS.get(protocol_of(template))
    return record is not None and record.streams(template)


def _slimmed(entry: ManualToolEntry) -> ManualToolEntry:
    """Return the entry of a 0.x manual slimmed: definitions are written out there, which can multiply its
    size.
    """
    slimmed = Slimmer().slim(
        name=entry.name,
        description=entry.description,
        inputs=inline_references(make_publishable(entry.inputs)),
        outputs=inline_references(make_publishable(entry.outputs)),
    )
    if slimmed is None:
        return entry
    return replace(entry, description=slimmed.description, inputs=slimmed.inputs, outputs=slimmed.outputs)


def compose(
    provider_manuals: Sequence[ProviderManual], *, selection: ManualSelection, principal: Principal
) -> Representation:
    """Compose the manual of the selected tools that the principal may call: in the order of the search, else
    by provider and tool name.
    """
    ranks = selection.ranks
    chosen = [
        tool
        for provider_manual in provider_manuals
        for tool in provider_manual.tools
        if principal.may_use(provider_manual.provider, tool.registrar_tags)
        and (selection.tag is None or selection.tag in tool.tags)
        and (ranks is None or tool.tool_id in ranks)
    ]
    if ranks is not None:
        chosen.sort(key=lambda tool: ranks[tool.tool_id])
    selected = [(tool.streaming_body or tool.body) if selection.streaming else tool.body for tool in chosen]
    bodies = [body for body in selected if body is not None]
    body = render_manual(selection.version, bodies)
    etag = hashlib.sha256(body).hexdigest()[:32]
    return Representation(body, etag, len(bodies), left_out=len(selected) - len(bodies))

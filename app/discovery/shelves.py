"""The tools of one provider, each rendered once; a manual is put together from these bytes."""

import gzip
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final
from uuid import UUID

import structlog

from app.catalog.tools import ToolView, call_url
from app.errors import GatewayError
from app.json_schema.normalize import publishable
from app.json_schema.references import inline
from app.openapi.slim import LARGEST, Slimmer
from app.security.principal import Principal
from app.utcp.render import (
    GATEWAYS,
    ManualEntry,
    ManualVersion,
    render_manual,
    render_tool_v0,
    render_tool_v1,
)

_RENDERERS: Final = {0: render_tool_v0, 1: render_tool_v1}
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A tool of a manual as bytes, and what decides who sees it. `tags` are its own and its provider's.

    `stamp` differs when the tool would be rendered otherwise.
    """

    tool_id: UUID
    provider_id: UUID
    name: str
    tags: frozenset[str]
    registrar_tags: frozenset[str]
    body: bytes = field(repr=False)
    stamp: str = ""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The enabled tools of one provider, by name."""

    provider: str
    tools: tuple[Prepared, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader asked for; `matching` are the tools that a search found."""

    version: ManualVersion
    provider: str | None = None
    tag: str | None = None
    matching: frozenset[UUID] | None = None


@dataclass(slots=True)
class Representation:
    """A manual as it is sent. `etag` is strong, and differs for the compressed form."""

    body: bytearray = field(repr=False)
    etag: str
    tools: int
    left_out: int = 0
    """With `mode=direct`: tools that a UTCP client could not call."""
    _compressed: bytes | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """Bytes held."""
        return len(self.body) + len(self._compressed or b"")

    def compressed(self) -> bytes:
        """The body in gzip, the same bytes on every replica (no time in the header)."""
        if self._compressed is None:
            self._compressed = gzip.compress(self.body, compresslevel=6, mtime=0)
        return self._compressed

    @property
    def is_compressed(self) -> bool:
        """Whether `compressed` is at hand."""
        return self._compressed is not None


def prepare(
    tools: Iterable[ToolView],
    *,
    version: ManualVersion,
    base_url: str,
    stamps: Mapping[UUID, str] = MappingProxyType({}),
    identity: str = "",
) -> list[Prepared]:
    """Renders tools (about 0.1 ms each). One that cannot be rendered is left out, and logged."""
    prepared = []
    for tool in tools:
        entry = ManualEntry(
            name=tool.alias,
            description=tool.description,
            inputs=tool.inputs,
            outputs=tool.outputs,
            tags=tool.tags,
            call_url=call_url(base_url, tool.alias),
            provider=tool.provider,
            gateways=(*(tool.call_template.get(GATEWAYS) or ()), identity) if identity else (),
        )
        try:
            body = _RENDERERS[version](entry)
            if version == 0 and len(body) > LARGEST:
                body = _RENDERERS[version](_slimmed(entry))
        except (GatewayError, RecursionError, TypeError, ValueError) as error:
            _log.warning("a tool is left out of the manual", tool=tool.name, error=type(error).__name__)
            continue
        tags = frozenset(tool.tags) | tool.registrar_tags
        stamp = stamps.get(tool.id, "")
        prepared.append(
            Prepared(tool.id, tool.provider_id, tool.name, tags, tool.registrar_tags, body, stamp)
        )
    return prepared


def _slimmed(entry: ManualEntry) -> ManualEntry:
    """The entry of a 0.x manual, where definitions are written out, which can be many times as long."""
    shown = Slimmer().slim(
        name=entry.name,
        description=entry.description,
        inputs=inline(publishable(entry.inputs)),
        outputs=inline(publishable(entry.outputs)),
    )
    if shown is None:
        return entry
    return replace(entry, description=shown.description, inputs=shown.inputs, outputs=shown.outputs)


def compose(shelves: Sequence[Shelf], *, wanted: Wanted, principal: Principal) -> Representation:
    """The manual of what the principal may call; the order is that of providers and tools by name."""
    bodies = [
        tool.body
        for shelf in shelves
        for tool in shelf.tools
        if principal.may_use(shelf.provider, tool.registrar_tags)
        and (wanted.tag is None or wanted.tag in tool.tags)
        and _is_in(tool.tool_id, wanted.matching)
    ]
    body = render_manual(wanted.version, bodies)
    return Representation(body, hashlib.sha256(body).hexdigest()[:32], len(bodies))


def _is_in(tool_id: UUID, matching: Collection[UUID] | None) -> bool:
    return matching is None or tool_id in matching

"""The manuals of toolsets, and of the keys that are limited to several of them.

A tool is rendered again when it, or what the toolset sets of it, has changed.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import structlog

from app.agents.utcp.provider_manuals import Representation, render_entry
from app.core.errors import GatewayError
from app.formats.utcp.render import ManualToolEntry, ManualVersion, render_manual
from app.search.index import Filters
from app.toolsets import AgentTool, Listing, ToolCollection, ToolSearch, toolset_call_url

_MAX_CACHED: Final = 32
_MAX_MATCHES: Final = 1_000
_COMPOSE_INLINE_MAX: Final = 20
_log = structlog.get_logger(__name__)

_Bodies = dict[str, tuple[str, bytes | None]]
_Form = tuple[str, ManualVersion, bool]
"""The name of a toolset ("" for tools of several), the version, and whether tools that stream are called by
`streamable_http`.
"""


class ToolsetManuals:
    """Composes and caches manuals of toolsets; `base_url` is where tools are called, `identity` names this
    gateway in call templates.
    """

    def __init__(self, *, base_url: str, identity: str = "") -> None:
        self._base_url = base_url
        self._identity = identity
        self._bodies: OrderedDict[_Form, _Bodies] = OrderedDict()
        self._manuals: OrderedDict[Any, Representation] = OrderedDict()

    async def manual(
        self,
        collection: ToolCollection,
        version: ManualVersion,
        *,
        texts: Sequence[str] = (),
        filters: Filters,
        streaming: bool = False,
        compressed: bool = False,
    ) -> Representation:
        """Return the manual of the tools of a collection that `filters` name by provider and tag; with
        `texts`, of those that a search finds, in its order. With `streaming`, tools that stream are called by
        `streamable_http`. Raises Unavailable.
        """
        listing = await collection.listing()
        tools = listing.tools
        provider, tag = filters.provider, filters.tag
        if provider is not None:
            tools = tuple(tool for tool in tools if tool.provider == provider)
        if tag is not None:
            tools = tuple(tool for tool in tools if tag in tool.tags or tag in tool.registrar_tags)
        if texts:
            chosen = await _found(collection, texts, filters)
        else:
            chosen = listing if tools is listing.tools else Listing.of(tools)
        name = collection.toolset or ""
        form = (name, version, streaming)
        key = (*form, chosen.stamp)
        manual = self._manuals.get(key)
        if manual is None:
            if len(chosen.tools) <= _COMPOSE_INLINE_MAX:
                manual = self._compose(form, chosen)
            else:
                manual = await asyncio.to_thread(self._compose, form, chosen)
            _store(self._manuals, key, manual)
        if compressed and not manual.is_compressed:
            await asyncio.to_thread(manual.compressed)
        return manual

    def _compose(self, form: _Form, listing: Listing) -> Representation:
        known = self._bodies.get(form, {})
        fresh: _Bodies = {}
        for tool in listing.tools:
            stored = known.get(tool.name)
            is_current = stored is not None and stored[0] == tool.stamp
            fresh[tool.name] = stored if stored and is_current else (tool.stamp, self._body(tool, form))
        _store(self._bodies, form, known | fresh if len(known) <= 2 * len(fresh) else fresh)
        bodies = [body for _, body in fresh.values() if body is not None]
        content = render_manual(form[1], bodies)
        etag = hashlib.sha256(content).hexdigest()[:32]
        return Representation(content, etag, len(bodies), left_out=len(fresh) - len(bodies))

    def _body(self, tool: AgentTool, form: _Form) -> bytes | None:
        toolset, version, streaming = form
        gateways = (*tool.gateways, self._identity) if self._identity else ()
        entry = ManualToolEntry(
            name=tool.name,
            description=tool.description,
            inputs=tool.inputs,
            outputs=tool.outputs,
            tags=list(tool.tags),
            call_url=toolset_call_url(self._base_url, toolset, tool.name),
            provider=tool.provider,
            gateways=gateways,
            as_stream=streaming and tool.streams,
            chunk_size=tool.chunk_size if streaming and tool.streams else None,
        )
        try:
            return render_entry(entry, version)
        except (GatewayError, RecursionError, TypeError, ValueError) as error:
            _log.warning("a tool was omitted from the manual", tool=tool.tool, error=type(error).__name__)
            return None


async def _found(collection: ToolCollection, texts: Sequence[str], filters: Filters) -> Listing:
    """Return what a search finds as a listing in the order of the search, whose stamp tells that order."""
    found = await collection.find(ToolSearch(texts, filters, _MAX_MATCHES))
    tools = tuple(found.tools)
    return Listing(tools, hashlib.sha256("".join(tool.stamp for tool in tools).encode()).hexdigest())


def _store(cache: "OrderedDict[Any, Any]", key: Any, value: Any) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > _MAX_CACHED:
        cache.popitem(last=False)

"""Which texts the tools have, by the digests of their vectors, as the encoding process has it in memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from app.catalog.feed import ChangeNotice
from app.search.vectors.store import (
    digest_text,
    is_one_of,
    read_stamps,
    read_tools,
    select_encoded_tools,
)
from app.search.vectors.texts import DescribedTool, write_tool_texts
from app.storage.database import Database

_MAX_NAMED: Final = 1_000
"""Up to this many tools are read by id; for more, all in scope are read."""

Digests = tuple[bytes | None, bytes | None]
"""Of the two texts of a tool; None for an empty one."""
_Tools = dict[UUID, dict[UUID, tuple[str, Digests]]]
"""Stamp and digests, by provider and tool."""


@dataclass(slots=True)
class ToolDigests:
    """The digests of all enabled tools' texts, read anew where the change feed reports a change."""

    database: Database
    model: str
    removed: bool = False
    """Whether texts may have become unused since this was last set to False."""
    _tools: _Tools = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self._tools.values()))

    def __iter__(self) -> Iterator[tuple[UUID, Digests]]:
        for tools in self._tools.values():
            for tool, (_, digests) in tools.items():
                yield tool, digests

    def list_used(self) -> set[bytes]:
        """Return all digests that a tool has."""
        return {digest for _, digests in self for digest in digests if digest is not None}

    async def apply(self, changes: Iterable[ChangeNotice]) -> bool:
        """Read what the changes affect; return whether a tool or a digest changed. Raise Unavailable.

        Where it is interrupted, all is as before: the next change finds what this one did not.
        """
        relevant = [change for change in changes if change.kind in ("all", "provider", "tool")]
        if not relevant:
            return False
        everything = any(change.kind == "all" or change.provider_id is None for change in relevant)
        providers = None if everything else {one.provider_id for one in relevant if one.provider_id}
        async with self.database.read_session() as session:
            stamps = await read_stamps(session, providers)
            scope = set(self._tools) | set(stamps) if providers is None else providers
            before = {provider: self._tools[provider] for provider in scope if provider in self._tools}
            tools = _select_unchanged(before, stamps)
            outdated = [
                tool
                for provider, some in stamps.items()
                for tool in some
                if tool not in tools.get(provider, {})
            ]
            is_removed = any(
                tool not in tools[provider] for provider, some in before.items() for tool in some
            )
            if outdated:
                condition = (
                    is_one_of(outdated) if len(outdated) <= _MAX_NAMED else select_encoded_tools(providers)
                )
                async for rows in read_tools(session, condition):
                    for provider, tool, stamp, described in rows:
                        tools.setdefault(provider, {})[tool] = (stamp, self._digest_tool(described))
        for provider in scope:
            self._tools.pop(provider, None)
        self._tools.update({provider: some for provider, some in tools.items() if some})
        self.removed = self.removed or is_removed
        return _list_digests(before) != _list_digests(tools)

    async def read_texts(self, tools: Sequence[UUID], missing: set[bytes]) -> dict[bytes, str]:
        """Return the texts of these tools whose digests are among `missing`; raise Unavailable."""
        texts_by_digest: dict[bytes, str] = {}
        async with self.database.read_session() as session:
            async for rows in read_tools(session, is_one_of(tools)):
                for *_, described in rows:
                    for text in write_tool_texts(described):
                        digest = digest_text(self.model, text)
                        if text and digest in missing:
                            texts_by_digest[digest] = text
        return texts_by_digest

    def _digest_tool(self, tool: DescribedTool) -> Digests:
        first, second = (digest_text(self.model, text) if text else None for text in write_tool_texts(tool))
        return first, second


def _select_unchanged(tools: _Tools, stamps: Mapping[UUID, Mapping[UUID, str]]) -> _Tools:
    """Return the tools that are stored as they were, by each provider that had some."""
    return {
        provider: {tool: one for tool, one in some.items() if stamps.get(provider, {}).get(tool) == one[0]}
        for provider, some in tools.items()
    }


def _list_digests(tools: _Tools) -> dict[UUID, Digests]:
    return {tool: digests for some in tools.values() for tool, (_, digests) in some.items()}

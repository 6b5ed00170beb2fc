"""Which texts the tools have, by the digests of their vectors, as the encoding process has it in memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from app.catalog.feed import ChangeNotice
from app.database import Database
from app.search_vectors.store import is_one_of, read_stamps, read_tools, text_digest, tools_of
from app.search_vectors.texts import DescribedTool, tool_texts

_MAX_NAMED: Final = 1_000
"""Up to this many tools are read by id; for more, all in scope are read."""

Digests = tuple[bytes | None, bytes | None]
"""Of the two texts of a tool; None for an empty one."""


@dataclass(slots=True)
class ToolDigests:
    """The digests of all enabled tools' texts, read anew where the change feed reports a change."""

    database: Database
    model: str
    removed: bool = False
    """Whether texts may have become unused since this was last set to False."""
    _tools: dict[UUID, dict[UUID, tuple[str, Digests]]] = field(default_factory=dict)
    """Stamp and digests, by provider and tool."""

    def __len__(self) -> int:
        return sum(map(len, self._tools.values()))

    def __iter__(self) -> Iterator[tuple[UUID, Digests]]:
        for tools in self._tools.values():
            for tool, (_, digests) in tools.items():
                yield tool, digests

    def used(self) -> set[bytes]:
        """Return all digests that a tool has."""
        return {digest for _, digests in self for digest in digests if digest is not None}

    async def apply(self, changes: Iterable[ChangeNotice]) -> bool:
        """Read what the changes affect; return whether a tool or a digest changed. Raise Unavailable."""
        relevant = [change for change in changes if change.kind in ("all", "provider", "tool")]
        if not relevant:
            return False
        everything = any(change.kind == "all" or change.provider_id is None for change in relevant)
        providers = None if everything else {one.provider_id for one in relevant if one.provider_id}
        async with self.database.read_session() as session:
            stamps = await read_stamps(session, providers)
            scope = set(self._tools) | set(stamps) if providers is None else providers
            before = {provider: dict(self._tools.get(provider, {})) for provider in scope}
            outdated = self._retain(scope, stamps)
            if not outdated:
                return _digests_of(before) != _digests_of(self._of(scope))
            condition = is_one_of(outdated) if len(outdated) <= _MAX_NAMED else tools_of(providers)
            async for rows in read_tools(session, condition):
                for provider, tool, stamp, described in rows:
                    self._tools.setdefault(provider, {})[tool] = (stamp, self._digests(described))
        return _digests_of(before) != _digests_of(self._of(scope))

    def _of(self, providers: Iterable[UUID]) -> dict[UUID, dict[UUID, tuple[str, Digests]]]:
        return {provider: self._tools.get(provider, {}) for provider in providers}

    async def texts(self, tools: Sequence[UUID], missing: set[bytes]) -> dict[bytes, str]:
        """Return the texts of these tools whose digests are among `missing`; raise Unavailable."""
        found: dict[bytes, str] = {}
        async with self.database.read_session() as session:
            async for rows in read_tools(session, is_one_of(tools)):
                for *_, described in rows:
                    for text in tool_texts(described):
                        digest = text_digest(self.model, text)
                        if text and digest in missing:
                            found[digest] = text
        return found

    def _retain(self, scope: Iterable[UUID], stamps: Mapping[UUID, Mapping[UUID, str]]) -> list[UUID]:
        """Forget what is not stored as it was; return the ids of the tools that must be read."""
        outdated: list[UUID] = []
        for provider in scope:
            before, stored = self._tools.get(provider, {}), stamps.get(provider, {})
            kept = {tool: one for tool, one in before.items() if stored.get(tool) == one[0]}
            self.removed = self.removed or len(kept) < len(before)
            outdated += [tool for tool in stored if tool not in kept]
            if kept:
                self._tools[provider] = kept
            else:
                self._tools.pop(provider, None)
        return outdated

    def _digests(self, tool: DescribedTool) -> Digests:
        first, second = (text_digest(self.model, text) if text else None for text in tool_texts(tool))
        return first, second


def _digests_of(tools: Mapping[UUID, Mapping[UUID, tuple[str, Digests]]]) -> dict[UUID, Digests]:
    return {tool: digests for some in tools.values() for tool, (_, digests) in some.items()}

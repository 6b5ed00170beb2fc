"""Reads and changes synonyms and pinned results. A change is one transaction, in effect on this worker when
it returns.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol
from uuid import UUID

from app.catalog.feed import ChangeFeed
from app.core.errors import (
    Conflict,
    FieldError,
    Forbidden,
    InvalidInput,
    PreconditionFailed,
)
from app.core.pagination import Page, PageRequest, matches_etag, write_etag
from app.search.words.definition import MAX_SETS, PinnedResult, SynonymSet, write_synonyms
from app.search.words.records import (
    NamedTool,
    RowT,
    count_rows,
    find_equal,
    find_row,
    find_tools,
    list_rows_in_scope,
    lock_words,
    read_pins_page,
    read_synonyms_page,
    record_words_change,
    require_toolset,
)
from app.search.words.stems import digest_query, digest_synonyms
from app.search.words.text_form import format_synonyms, parse_synonyms
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import PinnedResultRow, SynonymSetRow, now

_PATHS: Final[Mapping[type[Any], str]] = {
    SynonymSetRow: "/search/synonyms",
    PinnedResultRow: "/search/pins",
}


@dataclass(frozen=True, slots=True)
class PinProblem:
    """A tool of a pinned result that does not come first now: its name as it was given, and why."""

    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class PinnedResultState:
    """A stored pinned result, and what of it has no effect now."""

    row: PinnedResultRow
    problems: tuple[PinProblem, ...]


@dataclass(frozen=True, slots=True)
class ImportedSynonyms:
    """How many sets an import has created and deleted, and how many were there before."""

    created: int
    deleted: int
    unchanged: int


class ToolsetMembers(Protocol):
    """Knows the tools of toolsets."""

    async def list_member_names(self, toolset: str) -> frozenset[str]:
        """Return the canonical names of the tools of a toolset, none for one that does not exist."""


@dataclass(frozen=True, slots=True)
class SearchWordsService:
    """The operations on synonyms and pinned results. All of them raise Forbidden for a restricted key, and
    NotFound for an id that does not exist.
    """

    database: Database
    feed: ChangeFeed
    toolsets: ToolsetMembers

    async def get_synonyms(
        self, page: PageRequest, *, toolset: str | None, q: str | None, principal: Principal
    ) -> Page[SynonymSetRow]:
        """Return a page of the sets of synonyms; with `toolset`, of those of this toolset."""
        require_unrestricted(principal)
        async with self.database.read_session() as session:
            return await read_synonyms_page(session, page, toolset=toolset, q=q)

    async def get_pins(
        self, page: PageRequest, *, toolset: str | None, q: str | None, principal: Principal
    ) -> Page[PinnedResultState]:
        """Return a page of the pinned results; with `toolset`, of those of this toolset."""
        require_unrestricted(principal)
        async with self.database.read_session() as session:
            found = await read_pins_page(session, page, toolset=toolset, q=q)
        states = await self._describe_states(found.rows)
        return Page(states, found.next_cursor, found.total, found.total_at_least)

    async def read_synonym_set(self, row_id: UUID, *, principal: Principal) -> SynonymSetRow:
        """Return a set of synonyms."""
        require_unrestricted(principal)
        async with self.database.read_session() as session:
            return await find_row(session, SynonymSetRow, row_id)

    async def pin(self, row_id: UUID, *, principal: Principal) -> PinnedResultState:
        """Return a pinned result."""
        require_unrestricted(principal)
        async with self.database.read_session() as session:
            row = await find_row(session, PinnedResultRow, row_id)
        return (await self._describe_states([row]))[0]

    async def create_synonyms(self, given: SynonymSet, *, principal: Principal) -> SynonymSetRow:
        """Store a set of synonyms; raise Conflict where there is one of the same terms, and InvalidInput for
        an unknown toolset or one set too many.
        """
        row = SynonymSetRow(**given.model_dump(), digest=_digest_synonyms(given))
        return await self._create(row, "/terms", _describe_synonyms(given), principal)

    async def create_pin(self, given: PinnedResult, *, principal: Principal) -> PinnedResultState:
        """Store a pinned result; raise Conflict where there is one for the same words, and InvalidInput for
        an unknown toolset or one too many.
        """
        row = PinnedResultRow(**given.model_dump(), digest=digest_query(given.query))
        created = await self._create(row, "/query", given.model_dump(mode="json"), principal)
        return (await self._describe_states([created]))[0]

    async def replace_synonyms(
        self, row_id: UUID, given: SynonymSet, *, if_match: str | None, principal: Principal
    ) -> SynonymSetRow:
        """Replace a set of synonyms; raise PreconditionFailed where `if_match` names another version, and
        what `create_synonyms` raises.
        """
        members = given.model_dump() | {"digest": _digest_synonyms(given)}
        change = _Replacement(SynonymSetRow, row_id, members, "/terms", _describe_synonyms(given), if_match)
        return await self._replace(change, principal)

    async def replace_pin(
        self, row_id: UUID, given: PinnedResult, *, if_match: str | None, principal: Principal
    ) -> PinnedResultState:
        """Replace a pinned result; raise PreconditionFailed where `if_match` names another version, and what
        `create_pin` raises.
        """
        members = given.model_dump() | {"digest": digest_query(given.query)}
        detail = given.model_dump(mode="json")
        change = _Replacement(PinnedResultRow, row_id, members, "/query", detail, if_match)
        return (await self._describe_states([await self._replace(change, principal)]))[0]

    async def delete(
        self, kind: type[RowT], row_id: UUID, *, if_match: str | None, principal: Principal
    ) -> None:
        """Delete a set of synonyms or a pinned result; raise PreconditionFailed."""
        require_unrestricted(principal)
        async with self.database.transaction() as session:
            await lock_words(session)
            row = await find_row(session, kind, row_id)
            _check_version(row, if_match)
            await session.delete(row)
            await session.flush()
            await record_words_change(
                session, kind, row_id, "deleted", actor=principal.key_id, detail=_describe_row(row)
            )
        await self.feed.catch_up()

    async def export_synonyms(self, toolset: str | None, *, principal: Principal) -> str:
        """Return the sets of synonyms of a toolset, or with None those of the tenant, as text; raise
        InvalidInput for an unknown toolset.
        """
        require_unrestricted(principal)
        async with self.database.read_session() as session:
            await require_toolset(session, toolset)
            rows = await list_rows_in_scope(session, SynonymSetRow, toolset)
        return _write_rows(rows)

    async def import_synonyms(
        self, text: str, *, toolset: str | None, if_match: str | None, principal: Principal
    ) -> tuple[ImportedSynonyms, str]:
        """Replace the sets of synonyms of a toolset, or with None those of the tenant, by those of a text;
        return what has changed, and the sets as text.

        A set that is stored already stays as it is; of equal sets in the text, the first one counts. Raise
        InvalidInput for a text that `parse_synonyms` rejects, an unknown toolset and too many sets, and
        PreconditionFailed where `if_match` names another text than that which is stored.
        """
        require_unrestricted(principal)
        # Thousands of terms take longer to analyse than the event loop may be held up.
        given = await asyncio.to_thread(_index_sets, text, toolset)
        async with self.database.transaction() as session:
            await lock_words(session)
            await require_toolset(session, toolset)
            rows = await list_rows_in_scope(session, SynonymSetRow, toolset)
            if if_match is not None and not matches_etag(if_match, write_text_etag(_write_rows(rows))):
                raise PreconditionFailed("The synonyms have changed since they were read.")
            stored = {row.digest for row in rows}
            outdated = [row for row in rows if row.digest not in given]
            for row in outdated:
                await session.delete(row)
            await session.flush()
            added = [
                SynonymSetRow(**one.model_dump(), digest=digest)
                for digest, one in reversed(given.items())
                if digest not in stored
            ]
            _check_bound(await count_rows(session, SynonymSetRow) + len(added), SynonymSetRow)
            session.add_all(added)
            await session.flush()
            detail = {"toolset": toolset, "created": len(added), "deleted": len(outdated)}
            # Within the transaction: afterwards somebody else may have replaced it.
            now_stored = _write_rows(await list_rows_in_scope(session, SynonymSetRow, toolset))
            await record_words_change(
                session, SynonymSetRow, None, "imported", actor=principal.key_id, detail=detail
            )
        await self.feed.catch_up()
        return ImportedSynonyms(len(added), len(outdated), len(given) - len(added)), now_stored

    async def _create(self, row: RowT, pointer: str, detail: Mapping[str, Any], principal: Principal) -> RowT:
        require_unrestricted(principal)
        kind, row_id = type(row), row.id
        async with self.database.transaction() as session:
            await lock_words(session)
            await require_toolset(session, row.toolset)
            _check_unique(await find_equal(session, kind, row.toolset, row.digest), pointer)
            _check_bound(await count_rows(session, kind) + 1, kind)
            session.add(row)
            await session.flush()
            await record_words_change(session, kind, row_id, "created", actor=principal.key_id, detail=detail)
        await self.feed.catch_up()
        return row

    async def _replace(self, change: "_Replacement[RowT]", principal: Principal) -> RowT:
        require_unrestricted(principal)
        kind, row_id = change.kind, change.row_id
        async with self.database.transaction() as session:
            await lock_words(session)
            row = await find_row(session, kind, row_id)
            _check_version(row, change.if_match)
            await require_toolset(session, change.members["toolset"])
            equal = await find_equal(session, kind, change.members["toolset"], change.members["digest"])
            if equal is not None and equal.id != row_id:
                _check_unique(equal, change.at)
            for name, value in change.members.items():
                setattr(row, name, value)
            row.version += 1
            row.updated_at = now()
            await session.flush()
            await record_words_change(
                session, kind, row_id, "updated", actor=principal.key_id, detail=change.detail
            )
        await self.feed.catch_up()
        return row

    async def _describe_states(self, rows: Sequence[PinnedResultRow]) -> list[PinnedResultState]:
        """Return pinned results with what of them has no effect now."""
        async with self.database.read_session() as session:
            tools = await find_tools(session, {name for row in rows for name in row.tools})
        members: dict[str, frozenset[str]] = {}
        for toolset in {row.toolset for row in rows if row.toolset is not None}:
            members[toolset] = await self.toolsets.list_member_names(toolset)
        return [
            PinnedResultState(
                row, tuple(_list_problems(row, tools, None if row.toolset is None else members[row.toolset]))
            )
            for row in rows
        ]


@dataclass(frozen=True, slots=True)
class _Replacement(Generic[RowT]):
    """The members that replace those of a row. `at` is the pointer to what must be unique, `detail` that of
    the event.
    """

    kind: type[RowT]
    row_id: UUID
    members: Mapping[str, Any]
    at: str
    detail: Mapping[str, Any]
    if_match: str | None


def require_unrestricted(principal: Principal) -> None:
    """Raise Forbidden for a restricted key: the operator's words have effects for all keys, and name tools
    that it may not see.
    """
    if principal.is_restricted or principal.toolsets is not None:
        raise Forbidden(
            "Your key is restricted to providers, tags or toolsets: it may not use synonyms and pinned "
            "results.",
            hint="Use a key without restrictions that has the scope `providers:read` or `providers:write`.",
        )


def write_row_etag(row: SynonymSetRow | PinnedResultRow) -> str:
    """Return the strong entity tag of a row: its version in quotes (RFC 9110 section 8.8.3)."""
    return write_etag(row.version)


def write_text_etag(text: str) -> str:
    """Return the strong entity tag of synonyms as text: the beginning of its SHA-256 in quotes."""
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'


def _digest_synonyms(given: SynonymSet) -> bytes:
    return digest_synonyms(given.terms, given.expand_to)


def _index_sets(text: str, toolset: str | None) -> dict[bytes, SynonymSet]:
    """Return the sets of a text, the last one first; of equal ones the first one of the text."""
    return {_digest_synonyms(one): one for one in reversed(parse_synonyms(text, toolset=toolset))}


def _describe_synonyms(given: SynonymSet | SynonymSetRow) -> dict[str, Any]:
    return {"synonyms": write_synonyms(given.terms, given.expand_to), "toolset": given.toolset}


def _describe_row(row: SynonymSetRow | PinnedResultRow) -> dict[str, Any]:
    if isinstance(row, SynonymSetRow):
        return _describe_synonyms(row)
    return {"query": row.query, "tools": row.tools, "toolset": row.toolset}


def _write_rows(rows: Sequence[SynonymSetRow]) -> str:
    return format_synonyms((row.terms, row.expand_to) for row in rows)


def _list_problems(
    row: PinnedResultRow, tools: Mapping[str, NamedTool], members: frozenset[str] | None
) -> Sequence[PinProblem]:
    problems = []
    for name in row.tools:
        tool = tools.get(name)
        if tool is None:
            problems.append(PinProblem(name, "There is no enabled tool of this name."))
        elif members is not None and tool.tool not in members:
            problems.append(PinProblem(name, f"The toolset {row.toolset} does not have this tool."))
    return problems


def _check_unique(equal: SynonymSetRow | PinnedResultRow | None, pointer: str) -> None:
    """Raise Conflict for a row of the same words in the same scope."""
    if equal is None:
        return
    path = f"{_PATHS[type(equal)]}/{equal.id}"
    what = "set of synonyms of these terms" if pointer == "/terms" else "pinned result for these words"
    error = Conflict(f"There is a {what} already.", hint=f"Change it with PUT {path}.")
    error.errors = (FieldError(pointer, "Its words are those of another one."),)
    raise error


def _check_bound(count: int, kind: type[Any]) -> None:
    """Raise InvalidInput for more rows than are permitted."""
    if count > MAX_SETS:
        what = "sets of synonyms" if kind is SynonymSetRow else "pinned results"
        raise InvalidInput(f"There may be at most {MAX_SETS:,} {what}.", hint="Delete one that is not used.")


def _check_version(row: SynonymSetRow | PinnedResultRow, if_match: str | None) -> None:
    if if_match is not None and not matches_etag(if_match, write_row_etag(row)):
        raise PreconditionFailed(f"It has changed since it was read: its ETag is {write_row_etag(row)} now.")

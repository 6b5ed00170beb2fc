"""Cutting a result and keeping its rest, and reading that rest without calling the upstream again."""

import asyncio
from typing import Final

from app.calls.results.budget import Rest, apply_budget
from app.calls.results.continuations import MAX_BYTES, ContinuationStore, StoredRest
from app.calls.results.model import ModelResult, ResultBudget
from app.core.exact_json import dumps as write
from app.core.exact_json import load_exactly as parse
from app.security.principal import Principal

_INLINE_BYTES: Final = 64 << 10
_LESS: Final = "e.g. for a page, or for parts of the result (`fields` of call_tool, or of the header Prefer)"


async def fit(
    read: ModelResult,
    budget: ResultBudget,
    *,
    continuations: ContinuationStore | None,
    tool: str,
    principal: Principal,
) -> None:
    """Bring a result of a tool (its canonical name) into the budget, in place; what is cut can be read by the
    handle in `continuation`.
    """
    notes, rest = await _apply_in_thread_if_large(read, budget)
    if rest is not None:
        read.is_cut = True
        handle = None
        if continuations is not None:
            handle = await continuations.store(rest, tool=tool, principal=principal)
        read.continuation = handle
        notes.append(_explain_how_to_read(handle, rest))
    read.add_notes(notes)


async def read_continuation(
    handle: str,
    *,
    principal: Principal,
    continuations: ContinuationStore,
    budget: ResultBudget | None = None,
) -> ModelResult:
    """Return the rest of a result by its handle, within the budget; the upstream is not called.

    Reading it again gives the same. Raise NotFound for a handle that is unknown, has ended or belongs to
    another key, and Unavailable where Redis is.
    """
    stored = await continuations.load(handle, principal=principal)
    if len(stored.rest.content) > _INLINE_BYTES:
        read = await asyncio.to_thread(_read_from_position, stored)
    else:
        read = _read_from_position(stored)
    wanted = budget or ResultBudget()
    # The fields were projected when the result was read first.
    notes, rest = await _apply_in_thread_if_large(
        read, ResultBudget(wanted.max_bytes, wanted.max_tokens, (), wanted.format)
    )
    if rest is not None:
        read.is_cut = True
        read.continuation = f"{stored.id}.{_find_position(stored, rest)}"
        notes.append(_explain_how_to_read(read.continuation, rest))
    read.add_notes(notes)
    return read


async def _apply_in_thread_if_large(read: ModelResult, budget: ResultBudget) -> tuple[list[str], Rest | None]:
    if len(read.text) > _INLINE_BYTES or any(one.startswith("$") for one in budget.fields):
        return await asyncio.to_thread(apply_budget, read, budget)
    return apply_budget(read, budget)


def _read_from_position(stored: StoredRest) -> ModelResult:
    """Return the rest from its position on."""
    content, position = stored.rest.content, stored.position
    if stored.unit == "byte":
        text = content[position:].decode("utf-8", "ignore")
        return ModelResult(text or "(there is no more)")
    body = content if position == 0 else write(parse(content)[position:])
    return ModelResult(body.decode(), body=body)


def _find_position(stored: StoredRest, rest: Rest) -> str:
    """Return where the part begins that is still left out: an item, or a byte of the whole text."""
    whole = stored.rest.content
    if rest.kind == "text":
        return f"b{len(whole) - len(rest.content)}"
    return f"i{len(parse(whole)) - len(parse(rest.content))}"


def _explain_how_to_read(handle: str | None, rest: Rest) -> str:
    if handle is not None:
        return (
            f"Read the rest within ten minutes with the continuation {handle} (the tool read_more, or GET "
            f"/continuations/{handle}); the tool is not called again."
        )
    if len(rest.content) > MAX_BYTES:
        return (
            f"The rest has more than {MAX_BYTES:,} bytes and was not kept: call the tool for less, {_LESS}."
        )
    return f"The rest could not be kept: call the tool for less, {_LESS}."

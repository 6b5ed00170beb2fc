"""Lists of registrations: one verdict per entry, and one bad entry never loses the others."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

from app.errors import Conflict, GatewayError
from app.registration.request_model import RefusedEntry, Registration, Registrations
from app.registration.result import Imported
from app.registration.service import Registry
from app.security.principal import Principal

Verdict = Literal["registered", "previewed", "unchanged", "failed"]
_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class EntryVerdict:
    """What became of one entry. `status` is the HTTP status that it alone would have had."""

    name: str | None
    verdict: Verdict
    status: int
    imported: Imported | None = None
    error: GatewayError | None = None


async def register_all(
    registrations: Registrations, *, registry: Registry, principal: Principal, preview: bool = False
) -> list[EntryVerdict]:
    """A verdict for each entry, in order. Sources are read four at a time.

    An entry that made an existing provider earlier, and has not changed, is `unchanged`; one whose name an
    entry before it has is refused.
    """
    places = asyncio.Semaphore(_AT_ONCE)
    seen: set[str] = set()
    work: list[Awaitable[EntryVerdict]] = []
    for entry in registrations.entries:
        if isinstance(entry, RefusedEntry):
            work.append(_refused(entry.name, entry.error))
            continue
        if entry.name in seen:
            work.append(_refused(entry.name, Conflict(f"{entry.name!r} stands earlier in this list.")))
            continue
        seen.add(entry.name)
        work.append(_one(entry, registry=registry, principal=principal, preview=preview, places=places))
    return list(await asyncio.gather(*work))


async def _one(
    entry: Registration,
    *,
    registry: Registry,
    principal: Principal,
    preview: bool,
    places: asyncio.Semaphore,
) -> EntryVerdict:
    act: Callable[..., Awaitable[Imported]] = registry.preview if preview else registry.register
    try:
        async with places:
            registry.permit(entry, principal=principal)
            same = await registry.is_unchanged(entry, principal=principal)
            if same is not None:
                return EntryVerdict(entry.name, "unchanged", 200)
            imported = await act(entry, principal=principal)
    except GatewayError as error:
        return await _refused(entry.name, error)
    return EntryVerdict(
        entry.name, "previewed" if preview else "registered", 200 if preview else 201, imported
    )


async def _refused(name: str | None, error: GatewayError) -> EntryVerdict:
    return EntryVerdict(name, "failed", error.status, error=error)

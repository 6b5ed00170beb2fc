"""Lists of registrations, of a request or of `PROVIDERS_FILE`: an outcome for each entry, whatever the
others are.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from uuid import UUID

import structlog

from app.core.errors import Conflict, GatewayError
from app.providers.registration.json_yaml import parse_document
from app.providers.registration.model import (
    RegistrationBatch,
    RegistrationRequest,
    RegistrationResult,
    RejectedEntry,
)
from app.providers.registration.request_parser import read_registrations
from app.providers.registration.service import RegistrationService
from app.security.principal import Principal
from app.storage.models import TENANT

RegistrationOutcome = Literal["registered", "previewed", "unchanged", "failed"]
_CONCURRENCY: Final = 4
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class ImportProgress:
    """How many entries of a list have ended, of how many; 0 of 0 for an import that is no list."""

    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class EntryOutcome:
    """The outcome of one entry of a list; `status` is the HTTP status of a request with this entry alone."""

    name: str | None
    outcome: RegistrationOutcome
    status: int
    result: RegistrationResult | None = None
    error: GatewayError | None = None


async def register_all(
    batch: RegistrationBatch,
    *,
    registry: RegistrationService,
    principal: Principal,
    preview: bool = False,
    progress: ImportProgress | None = None,
) -> list[EntryOutcome]:
    """Register or preview each entry, four at a time, and return the outcome of each, in order; count in
    `progress` those that have ended.

    An entry that made an existing provider earlier, and has not changed, is `unchanged`; one with the name of
    an entry before it is rejected.
    """
    permits = asyncio.Semaphore(_CONCURRENCY)
    seen: set[str] = set()
    work: list[Awaitable[EntryOutcome]] = []
    for entry in batch.entries:
        if isinstance(entry, RejectedEntry):
            work.append(_report_rejected(entry.name, entry.error))
            continue
        if entry.name in seen:
            work.append(
                _report_rejected(entry.name, Conflict(f"{entry.name!r} is earlier in this list, too."))
            )
            continue
        seen.add(entry.name)
        work.append(
            _register_entry(entry, registry=registry, principal=principal, preview=preview, permits=permits)
        )
    counted = progress or ImportProgress()
    counted.total = len(work)

    async def count(entry: Awaitable[EntryOutcome]) -> EntryOutcome:
        outcome = await entry
        counted.done += 1
        return outcome

    return list(await asyncio.gather(*map(count, work)))


async def _register_entry(
    entry: RegistrationRequest,
    *,
    registry: RegistrationService,
    principal: Principal,
    preview: bool,
    permits: asyncio.Semaphore,
) -> EntryOutcome:
    act: Callable[..., Awaitable[RegistrationResult]] = registry.preview if preview else registry.register
    try:
        async with permits:
            registry.require_permission(entry, principal=principal)
            same = await registry.is_unchanged(entry, principal=principal)
            if same is not None:
                return EntryOutcome(entry.name, "unchanged", 200)
            result = await act(entry, principal=principal)
    except GatewayError as error:
        return await _report_rejected(entry.name, error)
    return EntryOutcome(entry.name, "previewed" if preview else "registered", 200 if preview else 201, result)


async def _report_rejected(name: str | None, error: GatewayError) -> EntryOutcome:
    return EntryOutcome(name, "failed", error.status, error=error)


async def import_file(
    path: Path, *, registry: RegistrationService, tenant: UUID = TENANT
) -> list[EntryOutcome]:
    """Register every entry of a providers.json (or .yaml) that does not exist yet, and log each outcome.

    Doing it again is harmless. Raises OSError where the file cannot be read, InvalidInput where it is no list
    of providers.
    """
    actor = Principal(key_id="providers-file", name=path.name, tenant_id=tenant, scopes=frozenset({"admin"}))
    body = await asyncio.to_thread(path.read_bytes)
    batch = read_registrations(await parse_document(body), name=path.stem or None, body=body)
    outcomes = await register_all(batch, registry=registry, principal=actor)
    for outcome in outcomes:
        problem = None if outcome.error is None else outcome.error.detail
        _log.info("providers file", provider=outcome.name, outcome=outcome.outcome, problem=problem)
    return outcomes

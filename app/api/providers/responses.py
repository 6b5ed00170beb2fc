"""Responses to imports: a status code and a model, sent at once or stored for a later poll."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from fastapi import Request
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.responses import JSONResponse, Response

from app.api.dependencies import location_of, services_of
from app.api.providers.schemas import (
    BatchCounts,
    BatchEntry,
    BatchResult,
    ImportView,
    Preview,
    RefreshedProvider,
    RegisteredProvider,
)
from app.api.providers.views import (
    consents_of,
    preview_of,
    refreshed_of,
    registered_of,
    report_of,
)
from app.core.errors import GatewayError, scopes_missing
from app.core.pagination import write_etag
from app.providers.registration.batch import EntryOutcome, ImportProgress, register_all
from app.providers.registration.jobs import ImportJobs, Work, problem_json
from app.providers.registration.model import (
    RegistrationBatch,
    RegistrationRequest,
    RegistrationResult,
    RejectedEntry,
)
from app.providers.registration.repository import SourceSummary, source_summaries
from app.providers.registration.service import RegistrationService
from app.security.lasting_rights import run_while_permitted, when_changed
from app.security.principal import Principal
from app.services import Services

StatusAndModel = tuple[int, BaseModel]
"""The status code and the model of a response."""

_CHUNK_ITEMS = 100

# Models of many tools are built and serialised in threads: those of 5,000 tools take 100 ms.


@dataclass(frozen=True, slots=True)
class ImportRunner:
    """Runs imports on behalf of one principal and turns their results into response models."""

    registry: RegistrationService
    principal: Principal

    async def register(
        self, registrations: RegistrationBatch, progress: ImportProgress, *, preview: bool = False
    ) -> StatusAndModel:
        """Register one provider or a list of them, which counts in `progress`; with `preview`, store nothing.

        Return, for one provider, 201 and a RegisteredProvider (with `preview`: 200 and a Preview); for a list
        a BatchResult with 200 where every entry succeeded, else 207. The error of a single registration is
        raised as it is; those of a list are part of the result.
        """
        if registrations.is_list:
            outcomes = await register_all(
                registrations,
                registry=self.registry,
                principal=self.principal,
                preview=preview,
                progress=progress,
            )
            status = 200 if all(one.error is None for one in outcomes) else 207
            return status, await asyncio.to_thread(batch_result_of, outcomes)
        only = registrations.entries[0]
        if isinstance(only, RejectedEntry):
            raise only.error
        if preview:
            seen = await self.registry.preview(only, principal=self.principal)
            return 200, await asyncio.to_thread(preview_of, seen)
        imported = await self.registry.register(only, principal=self.principal)
        source = await self._source(imported)
        return 201, await asyncio.to_thread(registered_of, imported, source=source)

    async def refresh(self, name: str, _progress: ImportProgress) -> tuple[int, RefreshedProvider]:
        """Import a provider's source again; return 200 and a RefreshedProvider. Raises as
        `RegistrationService.refresh`.
        """
        imported = await self.registry.refresh(name, principal=self.principal)
        source = await self._source(imported)
        return 200, await asyncio.to_thread(refreshed_of, imported, source=source)

    async def preview_refresh(self, name: str, _progress: ImportProgress) -> tuple[int, Preview]:
        """Return 200 and what a refresh would change, as a Preview; store nothing. Raises as `refresh`."""
        seen = await self.registry.preview_refresh(name, principal=self.principal)
        return 200, await asyncio.to_thread(preview_of, seen)

    async def _source(self, imported: RegistrationResult) -> SourceSummary | None:
        key = imported.provider.id
        async with self.registry.database.read_session() as session:
            return (await source_summaries(session, [key])).get(key)


class ImportCheck:
    """Checks whether a key may still do what an import does: a `RightCheck`."""

    def __init__(
        self,
        services: Services,
        principal: Principal,
        registers: Sequence[RegistrationRequest],
        refreshes: str | None,
    ) -> None:
        self._registry = services.registration
        self._registers = registers
        self._refreshes = refreshes
        self._check = when_changed(
            partial(services.keys.renew, principal),
            lambda: services.feed.position,
            self._check_principal,
            began_with=(principal, services.feed.position),
        )

    async def __call__(self) -> None:
        """Raise Unauthenticated, Forbidden or NotFound where it may not."""
        await self._check()

    async def _check_principal(self, principal: Principal) -> None:
        if not principal.has_scope("providers:write"):
            raise scopes_missing("The API key lacks the scope `providers:write`.", ["providers:write"])
        for registration in self._registers:
            self._registry.require_permission(registration, principal=principal)
        if self._refreshes is not None:
            async with self._registry.database.read_session() as session:
                await self._registry.visible_provider(session, self._refreshes, principal=principal)


def batch_result_of(outcomes: list[EntryOutcome]) -> BatchResult:
    """Return the response model of a list of registrations, with the number of entries by outcome."""
    counted = Counter(one.outcome for one in outcomes)
    counts = BatchCounts(
        registered=counted["registered"],
        previewed=counted["previewed"],
        unchanged=counted["unchanged"],
        failed=counted["failed"],
    )
    return BatchResult(entries=[_entry(one) for one in outcomes], counts=counts)


async def import_response(
    work: Any,
    request: Request,
    *,
    jobs: ImportJobs,
    principal: Principal,
    prefer: str | None,
    registers: RegistrationBatch | None = None,
    refreshes: str | None = None,
) -> Response:
    """Run `work(progress)` and return its response, to `request`; or start it as a background job and return
    202 at once, where the client sends `Prefer: respond-async` (RFC 7240 section 4.1). It is cancelled once
    the key may no longer do it.

    `registers` is what it stores, where that is new, `refreshes` the name of the provider whose source it
    reads. A 201 has the path of the provider in `Location`, a 202 that of the import.
    """
    entries = () if registers is None else registers.entries
    requests = [one for one in entries if isinstance(one, RegistrationRequest)]
    check = ImportCheck(services_of(request), principal, requests, refreshes)

    progress = ImportProgress()

    async def permitted() -> StatusAndModel:
        return await run_while_permitted(work(progress), check)

    preferences = {preference.strip().lower() for preference in (prefer or "").replace(";", ",").split(",")}
    if "respond-async" not in preferences:
        status, model = await permitted()
        headers = {}
        if status == 201 and isinstance(model, RegisteredProvider):
            headers["Location"] = location_of(request, "providers", model.name)
        return await asyncio.to_thread(model_response, status, model, headers=headers)
    row = await jobs.start(_as_job(permitted), principal=principal, progress=progress, registers=requests)
    view = ImportView(
        id=row.id, state="running", status=None, result=None, created_at=row.created_at, finished_at=None
    )
    location = location_of(request, "imports", str(row.id))
    headers = {"Location": location, "Preference-Applied": "respond-async"}
    return model_response(202, view, headers=headers)


def model_response(status: int, model: BaseModel, *, headers: dict[str, str] | None = None) -> Response:
    """Return a response with the model as JSON, and with an ETag where the model has a `version`."""
    version = getattr(model, "version", None)
    tag = {"ETag": write_etag(version)} if version is not None else {}
    return Response(
        json_of(model),
        status,
        headers={**tag, **(headers or {})},
        media_type=JSONResponse.media_type,
    )


def json_of(model: BaseModel) -> bytes:
    """Return the JSON that `model_dump_json` writes, serialised in chunks.

    One call for the whole model holds the global interpreter lock to its end (for 10,000 operations a tenth
    of a second), while no other thread runs. Not for models with aliases.
    """
    return b"".join(_chunks(model))


def _chunks(value: Any) -> Iterator[bytes]:
    if isinstance(value, BaseModel):
        lead = b"{"
        for name in type(value).model_fields:
            yield lead + to_json(name) + b":"
            yield from _chunks(getattr(value, name))
            lead = b","
        yield b"{}" if lead == b"{" else b"}"
    elif isinstance(value, list) and len(value) > _CHUNK_ITEMS:
        for start in range(0, len(value), _CHUNK_ITEMS):
            yield (b"," if start else b"[") + to_json(value[start : start + _CHUNK_ITEMS])[1:-1]
        yield b"]"
    else:
        yield to_json(value)


def import_view(row: Any) -> ImportView:
    """Return the view of a stored import job, as `GET /imports/{id}` sends it."""
    stored = row.result or {}
    return ImportView(
        id=UUID(str(row.id)),
        state=row.state,
        status=stored.get("status"),
        result=stored.get("body"),
        progress=stored.get("progress"),
        created_at=row.created_at,
        finished_at=row.finished_at,
    )


def _as_job(work: Any) -> Work:
    async def run() -> tuple[int, dict[str, Any]]:
        status, model = await work()
        return status, await asyncio.to_thread(_json_form, model)

    return run


def _json_form(model: BaseModel) -> dict[str, Any]:
    form: dict[str, Any] = orjson.loads(json_of(model))
    return form


def _entry(one: EntryOutcome) -> BatchEntry:
    imported = one.result
    return BatchEntry(
        name=one.name,
        outcome=one.outcome,
        status=one.status,
        tool_count=None if imported is None else imported.tool_count,
        report=None if imported is None else report_of(imported.report),
        needs_consent=[] if imported is None else consents_of(imported),
        problem=_problem(one.error),
    )


def _problem(error: GatewayError | None) -> Any:
    return None if error is None else problem_json(error)

"""What an import answers: a status and a model, whether somebody waits for it or not."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.responses import JSONResponse, Response

from app.errors import GatewayError
from app.providers.schemas import Entries, Entry, EntryCounts, ImportView, Refreshed
from app.providers.views import consents_of, preview_of, refreshed_of, registered_of, report_of
from app.registration.batch import EntryVerdict, register_all
from app.registration.jobs import ImportJobs, Work, problem_of
from app.registration.model import RegistrationBatch, RegistrationResult, RejectedEntry
from app.registration.repository import source_facts
from app.registration.service import Registry
from app.security.principal import Principal

Answer = tuple[int, BaseModel]

_PIECE = 100


# Models of many tools are made and written in threads: those of 5,000 take 100 ms.


@dataclass(frozen=True, slots=True)
class Answering:
    """Runs imports for one caller and answers in the models of the edge."""

    registry: Registry
    principal: Principal

    async def register(self, registrations: RegistrationBatch, *, preview: bool = False) -> Answer:
        """201 with the provider, or 200 (all well) or 207 (not all) with the verdicts on a list.

        Raises what the one registration raises where it is not a list.
        """
        if registrations.is_list:
            verdicts = await register_all(
                registrations, registry=self.registry, principal=self.principal, preview=preview
            )
            status = 200 if all(one.error is None for one in verdicts) else 207
            return status, await asyncio.to_thread(entries_of, verdicts)
        only = registrations.entries[0]
        if isinstance(only, RejectedEntry):
            raise only.error
        if preview:
            seen = await self.registry.preview(only, principal=self.principal)
            return 200, await asyncio.to_thread(preview_of, seen)
        imported = await self.registry.register(only, principal=self.principal)
        source = await self._source(imported)
        return 201, await asyncio.to_thread(registered_of, imported, source=source)

    async def refresh(self, name: str) -> tuple[int, Refreshed]:
        """200 with the provider and the difference."""
        imported = await self.registry.refresh(name, principal=self.principal)
        source = await self._source(imported)
        return 200, await asyncio.to_thread(refreshed_of, imported, source=source)

    async def _source(self, imported: RegistrationResult) -> dict[str, Any] | None:
        key = imported.provider.id
        async with self.registry.database.reading() as session:
            return (await source_facts(session, [key])).get(key)


def entries_of(verdicts: list[EntryVerdict]) -> Entries:
    """The verdicts on a list."""
    words = [one.verdict for one in verdicts]
    counts = EntryCounts(
        registered=words.count("registered"),
        previewed=words.count("previewed"),
        unchanged=words.count("unchanged"),
        refused=words.count("refused"),
    )
    return Entries(entries=[_entry(one) for one in verdicts], counts=counts)


async def answered(
    work: Any, *, jobs: ImportJobs, principal: Principal, prefer: str | None, root_path: str
) -> Response:
    """The answer of `work()`; or 202 at once, where the caller prefers that (RFC 7240 section 4.1)."""
    wishes = {wish.strip().lower() for wish in (prefer or "").replace(";", ",").split(",")}
    if "respond-async" not in wishes:
        status, model = await work()
        return await asyncio.to_thread(model_response, status, model)
    row = await jobs.start(_plain(work), principal=principal)
    view = ImportView(
        id=row.id, state="running", status=None, result=None, created_at=row.created_at, finished_at=None
    )
    headers = {"Location": f"{root_path}/imports/{row.id}", "Preference-Applied": "respond-async"}
    return model_response(202, view, headers=headers)


def model_response(status: int, model: BaseModel, *, headers: dict[str, str] | None = None) -> Response:
    """A model as JSON; a provider's carries its ETag."""
    version = getattr(model, "version", None)
    tag = {"ETag": f'"{version}"'} if version is not None else {}
    return Response(
        json_of(model),
        status,
        headers={**tag, **(headers or {})},
        media_type=JSONResponse.media_type,
    )


def json_of(model: BaseModel) -> bytes:
    """A model as `model_dump_json` writes it, but not in one piece: that holds the interpreter's lock to its
    end, for 10,000 operations a tenth of a second, while no other thread runs. Not for models with aliases.
    """
    return b"".join(_pieces(model))


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, BaseModel):
        lead = b"{"
        for name in type(value).model_fields:
            yield lead + to_json(name) + b":"
            yield from _pieces(getattr(value, name))
            lead = b","
        yield b"{}" if lead == b"{" else b"}"
    elif isinstance(value, list) and len(value) > _PIECE:
        for start in range(0, len(value), _PIECE):
            yield (b"," if start else b"[") + to_json(value[start : start + _PIECE])[1:-1]
        yield b"]"
    else:
        yield to_json(value)


def import_view(row: Any) -> ImportView:
    """A stored import as its poller sees it."""
    stored = row.result or {}
    return ImportView(
        id=UUID(str(row.id)),
        state=row.state,
        status=stored.get("status"),
        result=stored.get("body"),
        created_at=row.created_at,
        finished_at=row.finished_at,
    )


def _plain(work: Any) -> Work:
    async def run() -> tuple[int, dict[str, Any]]:
        status, model = await work()
        return status, await asyncio.to_thread(_plain_form, model)

    return run


def _plain_form(model: BaseModel) -> dict[str, Any]:
    form: dict[str, Any] = orjson.loads(json_of(model))
    return form


def _entry(one: EntryVerdict) -> Entry:
    imported = one.result
    return Entry(
        name=one.name,
        verdict=one.verdict,
        status=one.status,
        tool_count=None if imported is None else imported.tool_count,
        report=None if imported is None else report_of(imported.report.to_json()),
        needs_consent=[] if imported is None else consents_of(imported),
        problem=_problem(one.error),
    )


def _problem(error: GatewayError | None) -> Any:
    return None if error is None else problem_of(error)

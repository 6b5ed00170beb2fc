"""`PROVIDERS_FILE`: a whole providers.json (or .yaml) at every start."""

import asyncio
from pathlib import Path
from uuid import UUID

import structlog

from app.models import TENANT
from app.registration.batch import EntryVerdict, register_all
from app.registration.json_yaml import parsed
from app.registration.request_parser import read_registrations
from app.registration.service import Registry
from app.security.principal import Principal

_log = structlog.get_logger(__name__)


async def import_file(path: Path, *, registry: Registry, tenant: UUID = TENANT) -> list[EntryVerdict]:
    """Registers every entry that is not there yet, and logs a verdict on each; doing it again is harmless.

    Raises OSError where the file cannot be read, InvalidInput where it is no list of providers.
    """
    actor = Principal(key_id="providers-file", name=path.name, tenant_id=tenant, scopes=frozenset({"admin"}))
    body = await asyncio.to_thread(path.read_bytes)
    registrations = read_registrations(await parsed(body), name=path.stem or None, body=body)
    verdicts = await register_all(registrations, registry=registry, principal=actor)
    for one in verdicts:
        problem = None if one.error is None else one.error.detail
        _log.info("providers file", provider=one.name, verdict=one.verdict, problem=problem)
    return verdicts

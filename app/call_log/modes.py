"""The call log and the recording of bodies that the settings configure."""

from app.call_log.batch_writer import CallWriter
from app.call_log.bodies import BodyKeeper
from app.call_log.entries import Recorder
from app.call_log.strict import StrictRecorder
from app.database import Database
from app.security.vault import Vault
from app.settings import Settings


def recorder_for(settings: Settings, database: Database) -> Recorder:
    """Return the call log of AUDIT_MODE, not started yet."""
    writer = CallWriter(
        database,
        flush_seconds=settings.audit_flush_seconds,
        retention_days=settings.call_retention_days,
    )
    if settings.audit_mode == "strict":
        return StrictRecorder(writer, dsn=database.dsn, wait_seconds=settings.audit_wait_seconds)
    return writer


def bodies_for(settings: Settings, vault: Vault) -> BodyKeeper | None:
    """Return the recorder of bodies of AUDIT_BODIES, None where that is off."""
    if settings.audit_bodies == "off":
        return None
    return BodyKeeper(vault, which=settings.audit_bodies, most_bytes=settings.audit_body_bytes)

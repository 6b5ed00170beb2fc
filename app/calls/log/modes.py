"""The call log and the recording of bodies that the settings configure."""

from app.calls.log.batch_writer import BatchCallLog
from app.calls.log.bodies import BodyRecorder
from app.calls.log.entries import CallLog
from app.calls.log.strict import StrictCallLog
from app.core.settings import Settings
from app.security.vault import Vault
from app.storage.database import Database


def open_call_log(settings: Settings, database: Database) -> CallLog:
    """Return the call log of CALL_LOG_MODE, not started yet."""
    writer = BatchCallLog(
        database,
        flush_seconds=settings.call_log_flush_seconds,
        retention_days=settings.call_retention_days,
        stats_days=(settings.stats_retention_days, settings.stats_minute_retention_days),
    )
    if settings.call_log_mode == "strict":
        return StrictCallLog(writer, dsn=database.dsn, wait_seconds=settings.call_log_commit_timeout)
    return writer


def open_body_recorder(settings: Settings, vault: Vault) -> BodyRecorder | None:
    """Return the recorder of bodies of CALL_LOG_BODIES, None where that is off."""
    if settings.call_log_bodies == "off":
        return None
    return BodyRecorder(vault, policy=settings.call_log_bodies, max_bytes=settings.call_log_max_body_bytes)

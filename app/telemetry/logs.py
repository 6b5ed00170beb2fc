"""Logs: one structured line per event on standard error, without secrets.

Our own events (structlog) take the short way, the records of libraries (`logging`) join it in a handler; both
pass the same redaction. Tracebacks show no local variables.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Literal

import orjson
import structlog
from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.types import EventDict, ExcInfo, Processor

from app.telemetry.redaction import Masks, redact_field, scrub

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["console", "json"]

# uvicorn's lines of start and stop are wanted, its access lines hold query strings.
_SILENT = ("uvicorn.access",)
_QUIET = ("asyncio", "sqlalchemy", "alembic", "aiohttp", "httpx2", "httpcore2", "authlib")
# A line-oriented reader must not be given two lines where one was logged.
_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x0A, 0x09)
}

# Those of structlog, which the handler of `logging` takes too.
_PROCESSORS: list[Processor] = []


def configure_logging(level: Level, log_format: Format, masker: Masks | None = None) -> None:
    """Sets up structlog and `logging`. `masker` strikes out live secret values; it may come later, again."""
    number = logging.getLevelNamesMapping()[level.upper()]
    _PROCESSORS[:] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _redacted,
        *(_json_renderers() if log_format == "json" else _console_renderers()),
        _Scrubbed(masker),
    ]
    structlog.configure(
        processors=_PROCESSORS,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_Stderr,
        # A logger that was used keeps its level otherwise, whatever is configured later.
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Foreign()]
    root.setLevel(number)
    for name in _SILENT:
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = False
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
        logging.getLogger(name).setLevel(logging.NOTSET)


class _Stderr:
    """Writes finished lines to the standard error of this very moment (tests and daemons exchange it)."""

    def __init__(self, *_names: Any) -> None:
        pass

    def msg(self, line: str) -> None:
        sys.stderr.write(line + "\n")

    log = debug = info = warn = warning = error = err = critical = fatal = failure = exception = msg


class _Foreign(logging.Handler):
    """Takes the records of libraries through our processors."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record; like every handler it reports its own failure instead of raising it."""
        try:
            event: EventDict = {"event": record.getMessage(), "logger": record.name}
            if record.exc_info:
                event["exc_info"] = record.exc_info
            line: Any = event
            for processor in _PROCESSORS:
                line = processor(None, record.levelname.lower(), line)
            _Stderr().msg(line)
        except (TypeError, ValueError, KeyError, AttributeError, OSError, RecursionError):
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (the name is logging's)
        """The default prints the record's arguments, which may hold secrets."""
        sys.stderr.write(f"a log record of {record.name} could not be written\n")


class _Scrubbed:
    """The last step: shapes and live values are struck out of the finished line."""

    def __init__(self, masker: Masks | None) -> None:
        self._masker = masker

    def __call__(self, _logger: Any, _method: str, line: Any) -> str:
        text = scrub(str(line)).encode("utf-8", "backslashreplace").decode()
        return text if self._masker is None else self._masker.mask(text)


def _redacted(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {
        name: value if name in ("exc_info", "event", "level", "timestamp") else redact_field(name, value)
        for name, value in event.items()
    }


def _json_renderers() -> list[Processor]:
    return [structlog.processors.format_exc_info, _as_json]


def _as_json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    try:
        return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        # A lone surrogate or a number beyond 64 bits: shown by its repr.
        return orjson.dumps({name: ascii(value) for name, value in event.items()}).decode()


def _console_renderers() -> list[Processor]:
    return [
        _one_line,
        # structlog's default prints local variables as soon as rich is installed.
        ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_traceback, pad_event_to=0),
    ]


def _one_line(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {**event, "event": str(event.get("event", "")).translate(_CONTROLS).replace("\n", "\\n")}


def _traceback(out: Any, exc_info: ExcInfo) -> None:
    plain_traceback(out, exc_info)

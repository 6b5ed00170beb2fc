"""Logs: one structured line per event on standard error, without secrets.

The gateway's own events come from structlog, the records of libraries from `logging` through a handler; both
pass the same redaction. Tracebacks show no local variables.
"""

import logging
import sys
from collections.abc import MutableMapping
from io import StringIO
from typing import Any, Literal

import orjson
import structlog
from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.types import EventDict, ExcInfo, Processor

from app.core import exact_json
from app.core.errors import ResponseTruncated
from app.core.telemetry.context import CALL_ID, TRACE
from app.core.telemetry.redaction import TextFilter, TextMasker, redact_field, redact_text

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["console", "json"]

# uvicorn's access lines contain query strings; its start and stop lines are logged.
_DISABLED_LOGGERS = ("uvicorn.access",)
_WARNING_LOGGERS = ("asyncio", "sqlalchemy", "alembic", "httpx2", "httpcore2", "authlib")
# Control characters are escaped, so that one event is one line.
_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x0A, 0x09)
}

_UNREDACTED_FIELDS = frozenset({"exc_info", "level", "timestamp"})
# JSON does not escape these, but some readers treat them as line separators.
_LINE_SEPARATORS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}

# The processors of structlog, which the handler of `logging` uses too.
_PROCESSORS: list[Processor] = []


def configure_logging(level: Level, log_format: Format, masker: TextMasker | None = None) -> None:
    """Configure structlog and `logging`; a later call replaces the configuration.

    `masker` masks the secret values of this process; it does not exist yet at the first call.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    mask = _build_text_filter(masker)
    _PROCESSORS[:] = [
        structlog.contextvars.merge_contextvars,
        _add_call_ids,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        *(_list_json_renderers(mask) if log_format == "json" else _list_console_renderers(mask)),
        _RedactLine(mask),
    ]
    structlog.configure(
        processors=_PROCESSORS,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_Stderr,
        # Otherwise a logger that was used before ignores a later configuration.
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_LibraryHandler()]
    root.setLevel(number)
    for name in _DISABLED_LOGGERS:
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = False
    for name in _WARNING_LOGGERS:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
        logging.getLogger(name).setLevel(logging.NOTSET)
    logging.getLogger("uvicorn.error").addFilter(_is_not_logged_already)


def _is_not_logged_already(record: logging.LogRecord) -> bool:
    """Return False for a record of ResponseTruncated, whose cause has been logged where it was raised."""
    return not (record.exc_info and isinstance(record.exc_info[1], ResponseTruncated))


class _Stderr:
    """Writes finished lines to the current `sys.stderr` (tests and daemons replace it)."""

    def __init__(self, *_names: Any) -> None:
        pass

    def msg(self, line: str) -> None:
        sys.stderr.write(line + "\n")

    log = debug = info = warn = warning = error = err = critical = fatal = failure = exception = msg


class _LibraryHandler(logging.Handler):
    """Passes the records of libraries through the processors of structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; report an error in writing it instead of raising that, as all handlers do."""
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
        """Report that a record could not be written, without its arguments, which may contain secrets."""
        sys.stderr.write(f"a log record of {record.name} could not be written\n")


def _build_text_filter(masker: TextMasker | None) -> TextFilter:
    """Return what masks a text: known values first, since redaction by shape might split a value."""
    return redact_text if masker is None else lambda text: redact_text(masker.mask(text))


class _RedactLine:
    """The last processor: masks the finished line and escapes its line separators."""

    def __init__(self, mask: TextFilter) -> None:
        self._text_filter = mask

    def __call__(self, _logger: Any, _method: str, line: Any) -> str:
        text = self._text_filter(str(line)).translate(_LINE_SEPARATORS)
        return text.encode("utf-8", "backslashreplace").decode()


def _add_call_ids(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Add the ids of the current call and its trace, unless the event has them."""
    call_id = CALL_ID.get()
    if call_id:
        event.setdefault("call_id", call_id)
    trace = TRACE.get()
    if trace is not None:
        event.setdefault("trace_id", trace.trace_id)
        event.setdefault("span_id", trace.span_id)
    return event


class _RedactFields:
    """Redacts fields before anything is escaped: by type and name, and by shape and value within strings."""

    def __init__(self, mask: TextFilter) -> None:
        self._text_filter = mask

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        mask = self._text_filter
        return {
            name: value if name in _UNREDACTED_FIELDS else redact_field(name, value, text=mask)
            for name, value in event.items()
        }


def _list_json_renderers(mask: TextFilter) -> list[Processor]:
    return [structlog.processors.format_exc_info, _RedactFields(mask), _as_json]


def _as_json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    try:
        return exact_json.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        # Nested too deeply: written as its repr.
        return exact_json.dumps({name: ascii(value) for name, value in event.items()}).decode()


def _list_console_renderers(mask: TextFilter) -> list[Processor]:
    return [
        _RedactFields(mask),
        _escape_event,
        # structlog's default prints local variables as soon as rich is installed.
        ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=_IndentedTraceback(mask), pad_event_to=0
        ),
    ]


def _escape_event(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {**event, "event": str(event.get("event", "")).translate(_CONTROLS).replace("\n", "\\n")}


class _IndentedTraceback:
    """Writes a traceback with every line indented, so that its text cannot imitate a log line."""

    def __init__(self, mask: TextFilter) -> None:
        self._text_filter = mask

    def __call__(self, out: Any, exc_info: ExcInfo) -> None:
        plain = StringIO()
        plain_traceback(plain, exc_info)
        lines = self._text_filter(plain.getvalue()).split("\n")
        out.write("\n".join(f"  | {line.translate(_CONTROLS)}" if line else line for line in lines))

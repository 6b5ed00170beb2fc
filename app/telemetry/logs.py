"""Logs: one structured line per event on standard error, without secrets.

Our own events (structlog) take the short way, the records of libraries (`logging`) join it in a handler; both
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

from app.errors import AnswerCut
from app.telemetry.context import CALL_ID, TRACE
from app.telemetry.redaction import Masks, Text, redact_field, scrub

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["console", "json"]

# uvicorn's lines of start and stop are wanted, its access lines hold query strings.
_SILENT = ("uvicorn.access",)
_QUIET = ("asyncio", "sqlalchemy", "alembic", "httpx2", "httpcore2", "authlib")
# A line-oriented reader must not be given two lines where one was logged.
_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x0A, 0x09)
}

_OURS = frozenset({"exc_info", "level", "timestamp"})
# JSON leaves these as they are, and some readers end a line at them.
_ENDS_OF_LINES = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}

# Those of structlog, which the handler of `logging` takes too.
_PROCESSORS: list[Processor] = []


def configure_logging(level: Level, log_format: Format, masker: Masks | None = None) -> None:
    """Sets up structlog and `logging`. `masker` strikes out live secret values; it may come later, again."""
    number = logging.getLevelNamesMapping()[level.upper()]
    struck = _struck(masker)
    _PROCESSORS[:] = [
        structlog.contextvars.merge_contextvars,
        _which_call,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        *(_json_renderers(struck) if log_format == "json" else _console_renderers(struck)),
        _Scrubbed(struck),
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
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """An answer that is cut on purpose was logged where that was decided; the traceback adds nothing."""
    return not (record.exc_info and isinstance(record.exc_info[1], AnswerCut))


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


def _struck(masker: Masks | None) -> Text:
    """Strikes live values, and then shapes, which might cut a value in two, out of a text."""
    return scrub if masker is None else lambda text: scrub(masker.mask(text))


class _Scrubbed:
    """The last step: the same in the finished line."""

    def __init__(self, struck: Text) -> None:
        self._struck = struck

    def __call__(self, _logger: Any, _method: str, line: Any) -> str:
        text = self._struck(str(line)).translate(_ENDS_OF_LINES)
        return text.encode("utf-8", "backslashreplace").decode()


def _which_call(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Names the call that is being worked on, and its trace, unless the line does so itself."""
    call_id = CALL_ID.get()
    if call_id:
        event.setdefault("call_id", call_id)
    trace = TRACE.get()
    if trace is not None:
        event.setdefault("trace_id", trace.trace_id)
        event.setdefault("span_id", trace.span_id)
    return event


class _Redacted:
    """The first step, before anything is escaped: by type and name, and shapes and live values in strings."""

    def __init__(self, struck: Text) -> None:
        self._struck = struck

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        struck = self._struck
        return {
            name: value if name in _OURS else redact_field(name, value, text=struck)
            for name, value in event.items()
        }


def _json_renderers(struck: Text) -> list[Processor]:
    return [structlog.processors.format_exc_info, _Redacted(struck), _as_json]


def _as_json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    try:
        return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        # A lone surrogate or a number beyond 64 bits: shown by its repr.
        return orjson.dumps({name: ascii(value) for name, value in event.items()}).decode()


def _console_renderers(struck: Text) -> list[Processor]:
    return [
        _Redacted(struck),
        _one_line,
        # structlog's default prints local variables as soon as rich is installed.
        ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_Traceback(struck), pad_event_to=0),
    ]


def _one_line(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {**event, "event": str(event.get("event", "")).translate(_CONTROLS).replace("\n", "\\n")}


class _Traceback:
    """Every line set in, so that the text of an error cannot pass for a line of the log."""

    def __init__(self, struck: Text) -> None:
        self._struck = struck

    def __call__(self, out: Any, exc_info: ExcInfo) -> None:
        plain = StringIO()
        plain_traceback(plain, exc_info)
        lines = self._struck(plain.getvalue()).split("\n")
        out.write("\n".join(f"  | {line.translate(_CONTROLS)}" if line else line for line in lines))

"""What a client says of its call beside the arguments: headers of HTTP, or what stands for them elsewhere."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from app.core.errors import BadRequest, FieldError, InvalidInput
from app.protocols.responses.rule import ResponsePreferences, parse_preferences
from app.security.principal import REPAIR_MODES, RepairMode

RUN_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
"""What the name of a run of replays looks like."""
_RUN: Final = re.compile(RUN_PATTERN)
_MILLISECONDS: Final = re.compile(rb"0*[1-9][0-9]{0,8}")
_BARE_KEY: Final = re.compile(r"[!#-~][!-~]{0,254}")
_QUOTED_KEY: Final = re.compile(r'"((?:[!#-\[\]-~]|\\["\\]){1,510})"')
_REPAIR: Final = re.compile(r'\s*repair\s*=\s*"?(off|safe|on)"?\s*(?:;.*)?', re.IGNORECASE)


@dataclass(slots=True)
class CallOptions:  # made at each call; a frozen one costs twice as much
    """The options of one call, as its client sends them."""

    idempotency_key: str | None = None
    """The key under which the call is made once."""
    timeout: float | None = None
    """How many seconds the client waits; None: only the limits of the tool apply."""
    cache_control: str = ""
    """The directives for the response cache (RFC 9111 section 5.2.1)."""
    cdn_loop: bytes = b""
    """The value of the header CDN-Loop (RFC 8586): the gateways that the call has passed through."""
    trace_headers: Mapping[bytes, bytes] = field(default_factory=dict)
    """`traceparent` and `tracestate` (W3C Trace Context), where the client's trace is to be continued."""
    recording_run: str = ""
    """The run of replays that the call belongs to; "": the one of its key."""
    preferences: ResponsePreferences | None = None
    """What the client prefers for the response; None where the options of the provider decide."""
    repair: RepairMode | None = None
    """The repair of arguments that the client asks for, which precedes all other settings."""

    @classmethod
    def from_headers(cls, headers: Mapping[bytes, bytes]) -> Self:
        """Return the options in headers, by name in lower case.

        Raise BadRequest or InvalidInput for a value that is not valid; unknown preferences are ignored.
        """
        options = cls(
            cache_control=headers.get(b"cache-control", headers.get(b"pragma", b"")).decode("latin-1"),
            cdn_loop=headers.get(b"cdn-loop", b""),
            trace_headers=headers,
        )
        if b"idempotency-key" in headers:
            options.idempotency_key = read_idempotency_key(headers[b"idempotency-key"])
        if b"x-timeout-ms" in headers:
            options.timeout = _read_timeout(headers[b"x-timeout-ms"])
        if b"x-recording-run" in headers:
            options.recording_run = _read_run(headers[b"x-recording-run"])
        if b"prefer" in headers:
            prefer = headers[b"prefer"].decode("latin-1")
            options.preferences = parse_preferences(prefer)
            options.repair = parse_repair_preference(prefer)
        return options


def read_idempotency_key(value: bytes) -> str:
    """Return the key in a header's value: bare, or a string of RFC 9651 in quotes, which is the same key.

    Raise BadRequest for anything but 1 to 255 characters of visible ASCII.
    """
    text = value.decode("latin-1").strip(" \t")
    quoted = _QUOTED_KEY.fullmatch(text)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted is not None else text
    if len(key) > 255 or (quoted is None and _BARE_KEY.fullmatch(text) is None):
        detail = "Give one key of 1 to 255 visible ASCII characters, in double quotes or without."
        raise BadRequest(
            "The Idempotency-Key is not valid.", errors=[FieldError("#/header/Idempotency-Key", detail)]
        )
    return key


def parse_repair_preference(prefer: str) -> RepairMode | None:
    """Return the repair mode in a header Prefer (RFC 7240), e.g. `repair=safe`; None where it has none."""
    for preference in prefer.split(","):
        match = _REPAIR.fullmatch(preference)
        if match is not None:
            return REPAIR_MODES[match[1].lower()]
    return None


def _read_timeout(value: bytes) -> float:
    """Return the value of X-Timeout-Ms in seconds; raise InvalidInput."""
    if _MILLISECONDS.fullmatch(value) is None:
        error = FieldError("#/header/X-Timeout-Ms", "Give a whole number of milliseconds, from 1.", "integer")
        raise InvalidInput("A header is not valid.", errors=[error])
    return int(value) / 1000


def _read_run(value: bytes) -> str:
    """Return the name of a run of replays; raise BadRequest."""
    name = value.decode("latin-1").strip()
    if _RUN.match(name) is None:
        detail = "Give at most 64 letters, digits, `-`, `_` and `.`, beginning with a letter or digit."
        raise BadRequest(
            "The header X-Recording-Run is not valid.",
            errors=[FieldError("#/header/X-Recording-Run", detail)],
        )
    return name

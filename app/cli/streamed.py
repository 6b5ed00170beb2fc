"""`tools call --stream`: the events of an answer as they come, and a proper end."""

from collections.abc import Iterator
from typing import Any

import orjson

from app.cli.outcome import Refused, Unreachable
from app.cli.output import Output

ACCEPT = "application/x-ndjson"
"""What the gateway is asked for: one JSON value a line."""

_SEPARATORS = b"\r\n"


def print_events(chunks: Iterator[bytes], output: Output, *, verbose: bool) -> None:
    """One line on standard output for each event; text without quotes, unless programs read it.

    Raises Refused when the last event tells of an error, and Unreachable when there is no last event.
    """
    for line in _lines(chunks):
        value = _read(line)
        told = value.get("$gateway") if isinstance(value, dict) else None
        if not isinstance(told, dict):
            output.raw(_shown(line, value, output))
            continue
        if "error" in told:
            raise Refused(told["error"], status=int(told["error"].get("status", 0)))
        if verbose:
            ended = told.get("end", {})
            output.note(f"{ended.get('events')} events, {ended.get('bytes')} bytes")
        return
    raise Unreachable("The stream broke off before its last event.")


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Lines as bytes: text would be split at characters that JSON may hold (U+2028)."""
    waiting = bytearray()
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        waiting += first
        for other in others:
            if line := waiting.strip(_SEPARATORS):
                yield bytes(line)
            waiting = bytearray(other)


def _read(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        raise Unreachable("The stream holds something else than events: is this a gateway?") from None


def _shown(line: bytes, value: Any, output: Output) -> bytes:
    if isinstance(value, str) and not output.json:
        return value.encode()
    return line + b"\n"

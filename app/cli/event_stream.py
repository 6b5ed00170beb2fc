"""`tools call --stream`: the events of a response (application/x-ndjson) as they arrive."""

from collections.abc import Iterator
from typing import Any

import orjson

from app.cli.errors import GatewayUnreachable, ProblemResponse
from app.cli.output import CommandOutput, OutputFormat

ACCEPT = "application/x-ndjson"
"""The media type to request: one JSON value a line."""

_WHITESPACE = b"\r\n"


def print_events(chunks: Iterator[bytes], output: CommandOutput, *, verbose: bool) -> None:
    """Write each event on standard output: JSON on a line of its own, text as it is unless `--json` is given.

    Raise ProblemResponse where the last event is an error, GatewayUnreachable where there is no last event.
    """
    for line in _split_lines(chunks):
        value = _parse(line)
        control = value.get("$gateway") if isinstance(value, dict) else None
        if not isinstance(control, dict):
            output.write_raw(_render_line(line, value, output))
            continue
        if "error" in control:
            raise ProblemResponse(control["error"], status=int(control["error"].get("status", 0)))
        if verbose:
            end = control.get("end", {})
            output.note(f"{end.get('events')} events, {end.get('bytes')} bytes")
        return
    raise GatewayUnreachable("The stream ended without its last event.")


def _split_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines as bytes: text would also be split at characters that JSON may contain (U+2028)."""
    pending = bytearray()
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        pending += first
        for other in others:
            if line := pending.strip(_WHITESPACE):
                yield bytes(line)
            pending = bytearray(other)


def _parse(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        raise GatewayUnreachable(
            "The stream contains something other than events: is this a gateway?"
        ) from None


def _render_line(line: bytes, value: Any, output: CommandOutput) -> bytes:
    if isinstance(value, str) and output.format is not OutputFormat.JSON:
        return value.encode()
    return line + b"\n"

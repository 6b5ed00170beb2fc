"""Values from the command line: secrets that never stand on it, documents, tool arguments, paths."""

import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import typer

from app.cli.outcome import BadInput

#: `name=text` or `name:=json`; the first of both that appears splits.
_ITEM = re.compile(r"([^=]*?)(:=|=)(.*)", re.DOTALL)

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

SECRET_HELP = (
    "Where the secret comes from: '-' (a hidden prompt on a terminal, else standard input), '@FILE' or "
    "'env:NAME'. Never the secret itself: command lines are visible to every user of the machine."
)


def read_secret(source: str, *, prompt: str) -> str:
    """The secret that `source` names (see SECRET_HELP), without the newline that ends it.

    `BadInput` for a source of another form, which is not repeated: it may be the secret itself.
    """
    if source == "-":
        secret = typer.prompt(prompt, hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    elif source.startswith("@"):
        secret = read_bytes(source[1:]).decode("utf-8", errors="strict")
    elif source.startswith("env:"):
        secret = os.environ.get(source[4:], "")
    else:
        raise BadInput("A secret is not given on the command line: use '-', '@FILE' or 'env:NAME'.")
    secret = secret.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise BadInput(f"{prompt}: nothing was given.")
    return str(secret)


def read_bytes(path: str) -> bytes:
    """A file's bytes, or standard input for `-`; `BadInput` when it cannot be read."""
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or 'no such file'}.") from None


def read_text(path: str) -> str:
    """A file's text, or that of standard input for `-`; `BadInput` when it is none."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not text in UTF-8.") from None


def read_json(text: str, *, what: str) -> Any:
    """The JSON that `text` is, or that `@FILE` or `-` (standard input) holds; `what` is its name."""
    content = read_bytes(text.removeprefix("@")) if text.startswith("@") or text == "-" else text.encode()
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{what} is not JSON: {error}.") from None


def tool_arguments(items: Sequence[str], *, base: str | None = None) -> dict[str, Any]:
    """The arguments object of a tool: `base` (JSON, `@FILE` or `-`), then each `name=text` or `name:=json`.

    A value is never read from a file, whatever it begins with: it may come from somebody else.
    """
    arguments = {} if base is None else read_json(base, what="--arguments")
    if not isinstance(arguments, dict):
        raise BadInput("--arguments must be a JSON object.")
    given: set[str] = set()
    for item in items:
        match = _ITEM.fullmatch(item)
        if match is None or not match[1]:
            raise BadInput(f"'{item}' is neither name=text nor name:=json.")
        name, separator, value = match.groups()
        if name in given:
            raise BadInput(f"The argument '{name}' is given twice; lists are written name:='[1, 2]'.")
        given.add(name)
        try:
            arguments[name] = orjson.loads(value) if separator == ":=" else value
        except orjson.JSONDecodeError:
            raise BadInput(f"The value of '{name}' is not JSON; for text write {name}=... instead.") from None
    return arguments


def path(*segments: str) -> str:
    """A URL path with each segment percent-encoded, so that no name can leave its place."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise BadInput(f"'{segment}' is not a name.")
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def moment(text: str, *, option: str, ago: bool = False) -> str:
    """RFC 3339 of `30d` from now (or ago; also m, h, w), or of an ISO 8601 time, in UTC without an offset."""
    match = re.fullmatch(r"(\d{1,5})([mhdw])", text)
    try:
        if match:
            span = timedelta(**{_UNITS[match[2]]: int(match[1])})
            found = datetime.now(UTC).replace(microsecond=0) + (-span if ago else span)
        else:
            found = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise BadInput(f"{option} takes 12h, 30d, 8w or a time like 2030-01-31T00:00Z.") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()

"""Values and shared options of the command line: secrets, files, arguments, times, URL paths."""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn
from urllib.parse import quote

import orjson
import typer

from app.cli.errors import InputError
from app.core import exact_json

#: `name=text` or `name:=json`; the first of both that appears splits.
_ITEM = re.compile(r"([^=]*?)(:=|=)(.*)", re.DOTALL)

ENVELOPE_TYPE: Final = "application/vnd.toolclad.envelope+json"
Files = Sequence[tuple[str, tuple[str | None, bytes, str]]]
"""Parts of multipart/form-data: each a name with a file name (None for a field), content and media type."""

_SAFE_DIGITS: Final = 18
"""Integers of so many characters fit into 64 bits."""

_DURATION = re.compile(r"(\d{1,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

OverlayOption = Annotated[
    str | None, typer.Option("--overlay", metavar="FILE", help="An OpenAPI Overlay 1.0 to apply to it.")
]
RootOption = Annotated[
    str | None, typer.Option("--root", metavar="PATH", help="The document in a zip that holds several.")
]
ServerOption = Annotated[
    str | None,
    typer.Option("--server", help="Which of the document's servers: its index, name, description or URL."),
]
ServerVariableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--server-variable",
        metavar="NAME=VALUE",
        help="The value of a variable in the server's URL; may be repeated.",
    ),
]
SECRET_HELP = (
    "Where the secret comes from: '-' (a hidden prompt on a terminal, else standard input), '@FILE' or "
    "'env:NAME'. Never the secret itself: command lines are visible to every user of the machine."
)


def read_server_options(server: str | None, variables: Sequence[str] | None) -> dict[str, Any]:
    """Return the options of a registration that say which server is called; raise InputError for a variable
    without a value.
    """
    values: dict[str, str] = {}
    for written in variables or ():
        name, mark, value = written.partition("=")
        if not mark or not name:
            raise InputError(f"--server-variable {written!r}: write NAME=VALUE.")
        values[name] = value
    options: dict[str, Any] = {} if server is None else {"server": server}
    return {**options, **({"server_variables": values} if values else {})}


def confirm(question: str, *, option: str = "--yes") -> None:
    """Ask a question on the terminal; raise typer.Abort for no.

    Without a terminal nobody can answer: raise InputError, which names the option that does.
    """
    if not sys.stdin.isatty():
        raise InputError(f"There is no terminal to ask on: {question} Confirm with {option}.")
    typer.confirm(question, abort=True, err=True)


def read_secret(source: str, *, prompt: str) -> str:
    """Return the secret at `source` (see SECRET_HELP), without the newline that ends it.

    Raise InputError for a source of another form, which is not repeated: it may be the secret itself.
    """
    if source == "-":
        secret = typer.prompt(prompt, hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    elif source.startswith("@"):
        secret = read_bytes(source[1:]).decode("utf-8", errors="strict")
    elif source.startswith("env:"):
        secret = os.environ.get(source[4:], "")
    else:
        raise InputError("A secret is not given on the command line: use '-', '@FILE' or 'env:NAME'.")
    secret = secret.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise InputError(f"{prompt}: the value is empty.")
    return str(secret)


def read_bytes(path: str) -> bytes:
    """Return the bytes of a file (standard input for `-`); raise InputError where it cannot be read."""
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'no such file'}.") from None


def read_text(path: str) -> str:
    """Return the text of a UTF-8 file (standard input for `-`); raise InputError where it is not text."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8.") from None


def read_json(text: str, *, option: str, loads: Callable[[bytes], Any] = orjson.loads) -> Any:
    """Return the JSON value of `text`, or of the file for `@FILE`, or of standard input for `-`, as `loads`
    gives it.

    Raise InputError, which names `option`, for anything else.
    """
    content = read_bytes(text.removeprefix("@")) if text.startswith("@") or text == "-" else text.encode()
    try:
        return loads(content)
    except ValueError as error:
        raise InputError(f"{option} is not JSON: {error}.") from None


def read_tool_arguments(
    items: Sequence[str],
    *,
    base: str | None = None,
    read_inputs: Callable[[], Mapping[str, Any]] = dict,
) -> dict[str, Any]:
    """Return the arguments of a tool: `base` (JSON, `@FILE` or `-`), then each `name=text` or `name:=json`.

    A text becomes the value that it stands for by the tool's inputs, which `read_inputs` returns, {} where
    they are not known. A value is never read from a file, whatever it begins with: it may come from somebody
    else.
    """
    arguments = {} if base is None else read_json(base, option="--arguments", loads=_as_written)
    if not isinstance(arguments, dict):
        raise InputError("--arguments must be a JSON object.")
    texts: dict[str, str] = {}
    names: set[str] = set()
    for item in items:
        match = _ITEM.fullmatch(item)
        if match is None or not match[1]:
            raise InputError(f"'{item}' is neither name=text nor name:=json.")
        name, separator, value = match.groups()
        if name in names:
            raise InputError(f"The argument '{name}' is given twice; write a list as name:='[1, 2]'.")
        names.add(name)
        if separator == "=":
            texts[name] = value
            continue
        try:
            arguments[name] = _as_written(value.encode())
        except ValueError:
            raise InputError(
                f"The value of '{name}' is not JSON; for text write {name}=... instead."
            ) from None
    if texts:
        arguments |= _read_texts(texts, read_inputs())
    return arguments


def _read_texts(texts: Mapping[str, str], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that texts stand for by the inputs of a tool, as the gateway reads those of a query.

    What fits no type stays as it is: the gateway says what is wrong.
    """
    from app.formats.json_schema.text_values import TextError, TextReader

    def load(text: str) -> Any:
        try:
            return _as_written(text.encode())
        except ValueError:
            raise TextError(()) from None

    reader = TextReader(inputs, load)
    schemas = reader.list_properties(inputs)
    values: dict[str, Any] = dict(texts)
    for name, text in texts.items():
        with suppress(TextError):
            values[name] = reader.list_candidates([text], schemas.get(name))[0]
    return values


def _as_written(content: bytes) -> Any:
    """Return the value of JSON text, to be sent; raise ValueError for other text.

    Numbers that parsing would alter are sent as they are written, so that all of their digits arrive.
    """
    try:
        value = json.loads(
            content, parse_float=_parse_float, parse_int=_parse_integer, parse_constant=_reject_constant
        )
        exact_json.dumps(value, surrogates="refuse")
    except (RecursionError, TypeError) as error:
        raise ValueError(str(error)) from None
    return value


def _parse_float(text: str) -> float | orjson.Fragment:
    return number if repr(number := float(text)) == text else orjson.Fragment(text)


def _parse_integer(text: str) -> int | orjson.Fragment:
    return int(text) if len(text) <= _SAFE_DIGITS else orjson.Fragment(text)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def build_url_path(*segments: str) -> str:
    """Return a URL path of percent-encoded segments; raise InputError for an empty or a dot segment."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise InputError(f"'{segment}' is not a name.")
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def parse_duration(text: str, *, option: str) -> int:
    """Return the seconds of `0`, `30m`, `24h`, `7d` or `2w`; raise InputError, which names `option`, for any
    other text.
    """
    if text == "0":
        return 0
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InputError(f"{option} takes 0, 30m, 24h, 7d or 2w.")
    return int(timedelta(**{_UNITS[match[2]]: int(match[1])}).total_seconds())


def parse_time(text: str, *, option: str, ago: bool = False) -> str:
    """Return an RFC 3339 time for `30d` from now (or ago; also m, h, w) or for an ISO 8601 time.

    A time without an offset is in UTC. Raise InputError, which names `option`, for any other text.
    """
    match = _DURATION.fullmatch(text)
    try:
        if match:
            duration = timedelta(**{_UNITS[match[2]]: int(match[1])})
            moment = datetime.now(UTC).replace(microsecond=0) + (-duration if ago else duration)
        else:
            moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise InputError(f"{option} takes 12h, 30d, 8w or a time like 2030-01-31T00:00Z.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()

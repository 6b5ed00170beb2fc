"""Texts with placeholders: `{name}` is an argument, `{_name}` is injected, `{_secret:name}` a secret.

A text is split into its pieces once. Values are inserted into the pieces in one pass, so nothing in a value
is ever read as a placeholder.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from app.core import exact_json

SECRET_PREFIX: Final = "_secret:"
_PLACEHOLDER: Final = re.compile(r"\{(_secret:[A-Za-z0-9_]{1,64}|[A-Za-z_][A-Za-z0-9_]{0,99})\}")
_EXACT: Final = 2**53


@dataclass(frozen=True, slots=True)
class Reference:
    """A placeholder for the value of this name: an argument, a default, or what is injected."""

    name: str


@dataclass(frozen=True, slots=True)
class SecretReference:
    """A placeholder for the secret of this name."""

    name: str


Piece = str | Reference | SecretReference


def parse_pieces(text: str, *, known: Callable[[str], bool] = lambda _: True) -> tuple[Piece, ...]:
    """Return the pieces of a text. A placeholder whose name is not `known` is literal text."""
    pieces: list[Piece] = []
    literal, end = "", 0
    for match in _PLACEHOLDER.finditer(text):
        name = match[1]
        literal += text[end : match.start()]
        end = match.end()
        if name.startswith(SECRET_PREFIX):
            piece: Piece = SecretReference(name.removeprefix(SECRET_PREFIX))
        elif known(name):
            piece = Reference(name)
        else:
            literal += match[0]
            continue
        if literal:
            pieces.append(literal)
            literal = ""
        pieces.append(piece)
    literal += text[end:]
    if literal:
        pieces.append(literal)
    return tuple(pieces)


def list_references(text: str) -> Iterator[str]:
    """Yield the names of the placeholders of a text that are not secrets, in order."""
    for piece in parse_pieces(text):
        if isinstance(piece, Reference):
            yield piece.name


def list_secret_names(text: str) -> Iterator[str]:
    """Yield the names of the secrets of a text, in order."""
    for piece in parse_pieces(text):
        if isinstance(piece, SecretReference):
            yield piece.name


def fill(
    pieces: tuple[Piece, ...],
    values: Mapping[str, str],
    secrets: Mapping[str, str],
    encode: Callable[[str], str] = lambda text: text,
) -> str:
    """Return the text with encoded values in it; a value that is missing is empty."""
    return "".join(
        piece
        if isinstance(piece, str)
        else encode((secrets if isinstance(piece, SecretReference) else values).get(piece.name, ""))
        for piece in pieces
    )


def write_text(value: Any) -> str:
    """Return the text of an argument: a string as it is, any other JSON value as JSON, without `.0`."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return str(int(value))
    if isinstance(value, Decimal):
        return str(value)
    return exact_json.dumps(value).decode()

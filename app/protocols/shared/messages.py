"""Messages of protocols without headers: the arguments as JSON, or a text template filled with arguments."""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from app.core.errors import CredentialMissing, FieldError, InvalidArguments
from app.protocols.base import Call
from app.protocols.shared.texts import PLACEHOLDER, argument_value, named_arguments

DISCOVERY: Final = b'{"type": "utcp"}'
"""The message by which a UTCP client requests the manual, byte for byte."""

_QUOTES: Final = re.compile(r'\\.|"', re.DOTALL)


class MessagePart(NamedTuple):
    """A part of a message.

    `argument` is the name of the argument that it encodes, None for the template's own text. `is_json`: it
    is encoded as JSON, or escaped within a JSON string.
    """

    text: str
    argument: str | None = None
    is_json: bool = False


def message_parts(template: str, arguments: Mapping[str, Any]) -> list[MessagePart]:
    """Return the parts of a template, its placeholders replaced by arguments.

    Where the template is JSON but for its placeholders, the message is JSON, too: arguments are escaped
    within its strings and encoded as JSON elsewhere. In other templates they are inserted unchanged. Raise
    InvalidArguments where an argument is missing.
    """
    is_json = _is_json(template)
    pieces: list[MessagePart] = []
    quoted, begin = False, 0
    for found in PLACEHOLDER.finditer(template):
        before = template[begin : found.start()]
        value = argument_value(found[1], arguments)
        text = plain_text(value)
        if is_json:
            quoted ^= sum(mark[0] == '"' for mark in _QUOTES.finditer(before)) % 2 == 1
            text = json_text(text)[1:-1] if quoted else json_text(value)
        pieces += MessagePart(before), MessagePart(text, found[1], is_json)
        begin = found.end()
    return [*pieces, MessagePart(template[begin:])]


def join_parts(pieces: Iterable[MessagePart]) -> str:
    """Return the text of the message that the parts make."""
    return "".join([piece.text for piece in pieces])


def json_text(value: Any) -> str:
    """Return JSON exactly as the released clients write it: ASCII, with blanks after commas and colons."""
    return json.dumps(value)


def plain_text(value: Any) -> str:
    """Return an argument as text: a string unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json_text(value)


@contextlib.contextmanager
def map_encoding_errors() -> Iterator[None]:
    """Raise InvalidArguments where the body cannot encode an argument.

    Examples are lone surrogates, integers beyond 64 bits and values that are nested too deeply.
    """
    try:
        yield
    except (TypeError, UnicodeEncodeError, RecursionError):
        field_error = FieldError("", "Use well-formed Unicode, integers of 64 bits and at most 250 levels.")
        raise InvalidArguments("An argument cannot be written as text.", errors=[field_error]) from None


def reject_credentials(call: Call[Any], protocol: str) -> None:
    """Raise CredentialMissing for a credential that the protocol's messages cannot carry."""
    for wire in call.credentials:
        if wire.location != "field":
            raise CredentialMissing(
                f"The protocol {protocol} has no {wire.location} to carry the credential of slot "
                f"{wire.slot!r}: name a secret variable in the message template instead.",
                extra={"slots": [wire.slot]},
            )


def _is_json(template: str) -> bool:
    if not template.lstrip().startswith(("{", "[")) or not named_arguments(template):
        return False
    try:
        orjson.loads(PLACEHOLDER.sub("0", template))
    except orjson.JSONDecodeError:
        return False
    return True

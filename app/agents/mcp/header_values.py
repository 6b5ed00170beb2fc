"""Headers that mirror members of the body (MCP 2026-07-28, "Streamable HTTP")."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from app.agents.mcp.jsonrpc import HEADER_MISMATCH, RpcError
from app.formats.dialects.header_inputs import KEYWORD, KINDS

PARAMETER_PREFIX: Final = b"mcp-param-"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_BLANKS: Final = b" \t"


@dataclass(frozen=True, slots=True)
class MirroredArgument:
    """An argument that clients mirror into the header `Mcp-Param-<token>`: `path` are the property names."""

    token: str
    path: tuple[str, ...]


def read_text(value: bytes) -> str:
    """Return a header's value without the blanks around it, which servers do not all remove."""
    return value.strip(_BLANKS).decode("latin-1")


def decode_value(value: bytes) -> str:
    """Return the text that a header has, perhaps as `=?base64?...?=`; raise RpcError for other base64 than
    the canonical one of UTF-8.
    """
    text = read_text(value)
    match = _ENCODED.fullmatch(text) if text.startswith("=?") else None
    if match is None:
        return text
    try:
        decoded = base64.b64decode(match[1].encode("latin-1"), validate=True)
        if base64.b64encode(decoded).decode() == match[1]:
            return decoded.decode("utf-8")
    except (binascii.Error, ValueError):
        pass
    raise RpcError(HEADER_MISMATCH, "A header has base64 that is not the canonical one of UTF-8.", status=400)


def find_mirrored_arguments(schema: Mapping[str, Any]) -> tuple[MirroredArgument, ...]:
    """Return the arguments that a schema marks by `x-mcp-header`; invalid marks are left out."""
    by_token: dict[str, MirroredArgument] = {}
    for argument in _find_marked(schema, ()):
        by_token.setdefault(argument.token, argument)
    return tuple(by_token.values())


def _find_marked(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[MirroredArgument]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    for name, member in properties.items():
        if not isinstance(member, Mapping):
            continue
        token = member.get(KEYWORD)
        if isinstance(token, str) and _TOKEN.fullmatch(token) and member.get("type") in KINDS:
            yield MirroredArgument(token.lower(), (*path, name))
        yield from _find_marked(member, (*path, name))


def check_mirrored(
    mirrored: Sequence[MirroredArgument], head: Mapping[bytes, bytes], arguments: Mapping[str, Any]
) -> None:
    """Raise RpcError unless each mirrored argument has its header, and each such header its argument."""
    for argument in mirrored:
        header = head.get(PARAMETER_PREFIX + argument.token.encode())
        value = _get_member(arguments, argument.path)
        if (header is None) != (value is None):
            missing = "The header is missing" if header is None else "The argument is missing"
            raise _create_mismatch_error(f"{missing} for Mcp-Param-{argument.token}.")
        if header is not None and not _is_equal(decode_value(header), value):
            raise _create_mismatch_error(f"Mcp-Param-{argument.token} differs from its argument.")


def _create_mismatch_error(detail: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, detail, status=400)


def _get_member(arguments: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(name)
    return arguments


def _is_equal(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float | Decimal):
        try:
            return Decimal(text) == Decimal(str(value))
        except InvalidOperation:
            return False
    return isinstance(value, str) and text == value

"""Message boundaries: an argument neither ends the message that contains it nor begins another one.

The encoded message is checked, not the argument: JSON escapes control characters, so that a line break within
a JSON string is legal where messages end with a line break. `enforce_message_boundaries: false` in a call
template turns these checks off for one tool.
"""

import re
from collections.abc import Sequence
from typing import Final

from app.core.errors import FieldError, InvalidArguments
from app.core.text import pointer
from app.protocols.shared.messages import MessagePart, join_parts

# What text protocols read as the end of a line, a record or a message: the control characters of ASCII but
# the tab, those of Latin-1 (among them NEL), and Unicode's line and paragraph separators.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_OVERRIDE_HINT: Final = "enforce_message_boundaries: false in its call template allows that."


def has_control_characters(text: str) -> bool:
    """Return whether a text holds characters that end lines, records or messages in text protocols."""
    return _CONTROL.search(text) is not None


def check_control_characters(pieces: Sequence[MessagePart]) -> None:
    """Raise InvalidArguments for an argument that puts control characters other than the tab into a text.

    Raise it as well for an empty argument between CR and LF, which would join them to one end of line.
    """
    for index, piece in enumerate(pieces):
        if piece.argument is None or piece.is_json:
            continue
        if (
            not piece.text
            and join_parts(pieces[:index])[-1:] == "\r"
            and join_parts(pieces[index:])[:1] == "\n"
        ):
            raise _ends_message(
                piece, f"It is empty, which removes a line from the message; {_OVERRIDE_HINT}"
            )
        found = _CONTROL.search(piece.text)
        if found is not None:
            held = (
                f"It contains U+{ord(found[0]):04X}, which may end a message of this tool; {_OVERRIDE_HINT}"
            )
            raise _ends_message(piece, held)


def check_delimiter(pieces: Sequence[MessagePart], delimiter: bytes) -> None:
    """Raise InvalidArguments where an argument contains the delimiter or completes one.

    A delimiter may be completed by the text around the argument or by the delimiter that ends the message.
    The template's own text may contain delimiters.
    """
    starts: list[int] = []
    raw = bytearray()
    for piece in pieces:
        starts.append(len(raw))
        raw += piece.text.encode()
    length = len(raw)
    raw += delimiter
    position = 0
    while 0 <= (position := raw.find(delimiter, position)) < length:
        end = position + len(delimiter)
        touched = [
            piece
            for piece, start, following in zip(pieces, starts, [*starts[1:], length], strict=True)
            # An empty argument counts, too, where the delimiter spans it.
            if piece.argument is not None and (start < end and following > position)
        ]
        if touched:
            held = f"With the adjacent text, it contains the delimiter that ends a message; {_OVERRIDE_HINT}"
            raise _ends_message(touched[0], held)
        position = end


def check_not_empty(pieces: Sequence[MessagePart]) -> None:
    """Raise InvalidArguments where the arguments make an empty message, which could not be sent."""
    placed = [piece for piece in pieces if piece.argument is not None]
    if placed and not any(piece.text for piece in pieces):
        field_error = FieldError(pointer("", placed[0].argument or ""), "It is empty: nothing would be sent.")
        raise InvalidArguments("The arguments make an empty message.", errors=[field_error])


def check_length(pieces: Sequence[MessagePart], length: int) -> None:
    """Raise InvalidArguments where arguments make a message longer than its frame of `length` bytes."""
    size = sum(len(piece.text.encode()) for piece in pieces)
    if size <= length:
        return
    placed = [piece for piece in pieces if piece.argument is not None]
    if not placed:
        return
    longest = max(placed, key=lambda piece: len(piece.text))
    field_error = FieldError(
        pointer("", longest.argument or ""),
        f"Too long: the message would have {size} bytes, those of this tool have {length}; {_OVERRIDE_HINT}",
    )
    raise InvalidArguments("The arguments make more than one message.", errors=[field_error])


def _ends_message(piece: MessagePart, detail: str) -> InvalidArguments:
    field_error = FieldError(pointer("", piece.argument or ""), detail)
    return InvalidArguments("An argument could end the message that contains it.", errors=[field_error])

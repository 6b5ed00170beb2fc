"""Heads of responses that the parser rejects, and that a recipient may read all the same.

    Name : value                               Name: value            RFC 9112 section 5.1: a proxy removes it
    Content-Length: 5 (twice), or: 5, 5        Content-Length: 5      RFC 9110 section 8.6: one valid value

Heads in HTTP/2 have no colon, and a name with a space in it is malformed there (RFC 9113 section 8.2.1).
"""

import re
from collections.abc import Sequence
from typing import Final

from app.outbound.http1.exchange import MAX_INTERIM_RESPONSES

END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_SPACE_BEFORE_COLON: Final = re.compile(rb"^([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]+:")
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (1(?!01)[0-9][0-9])?")
_NAME: Final = b"content-length"


def merge_lengths(values: Sequence[bytes]) -> bytes | None:
    """Return the length that all values of Content-Length state; None where there are several, or none."""
    stated = {length.strip(b" \t") for value in values for length in value.split(b",")}
    length = stated.pop() if len(stated) == 1 else b""
    return length if length.isdigit() else None


def repair_heads(received: bytes) -> bytes | None:
    """Return what has arrived of a response, repaired up to the end of its head and of those of interim
    responses before it; the same object where there is nothing to repair, None before the end.

    Interim responses beyond MAX_INTERIM_RESPONSES, which the parser rejects, are not looked at.
    """
    start = 0
    repaired: list[bytes] = []
    while len(repaired) <= MAX_INTERIM_RESPONSES:
        status = _STATUS.match(received, start)
        if status is None:
            break
        end = END_OF_HEAD.search(received, start)
        if end is None:
            return None
        repaired.append(_repair(received[start : end.end()]))
        start = end.end()
        if status[1] is None:
            break
    whole = b"".join([*repaired, received[start:]])
    return received if whole == received else whole


def _repair(head: bytes) -> bytes:
    # A CR alone ends no line (RFC 9112 section 2.2); the parser rejects it.
    lines = [line + b"\n" for line in head[:-1].split(b"\n")]
    if any(line.startswith((b" ", b"\t")) for line in lines):
        # A value that goes on in the next line is not looked at.
        return head
    lines = [lines[0], *(_SPACE_BEFORE_COLON.sub(rb"\1:", line) for line in lines[1:])]
    fields = [line.partition(b":") for line in lines]
    at = [index for index, (name, _, _) in enumerate(fields) if name.lower() == _NAME]
    length = merge_lengths([fields[index][2].rstrip(b"\r\n") for index in at])
    if length is None:
        return b"".join(lines)
    lines[at[0]] = b"Content-Length: %s\r\n" % length
    return b"".join(line for index, line in enumerate(lines) if index not in at[1:])

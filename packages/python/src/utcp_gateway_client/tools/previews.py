"""Short forms of values for logs."""

from typing import Final

PREVIEW_BYTES: Final = 500


def preview(value: str | bytes, *, limit: int = PREVIEW_BYTES) -> str:
    """Return the text; of one with more than `limit` bytes of UTF-8 its beginning and how many bytes it has.

    A text is cut between two characters. Bytes that are not UTF-8 are replaced.
    """
    content = value.encode(errors="replace") if isinstance(value, str) else value
    if len(content) <= limit:
        return content.decode(errors="replace")
    end = limit
    # Bytes 10xxxxxx continue a character of UTF-8, which has at most four.
    while end > limit - 4 and end > 0 and content[end] & 0xC0 == 0x80:
        end -= 1
    return f"{content[:end].decode(errors='replace')}... ({len(content)} bytes)"

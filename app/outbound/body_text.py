"""The body of a response as text, where it is text."""

from app.core.media_types import is_textual, parse_essence
from app.outbound.charsets import charset_of, decode_text


def body_text(body: bytes, media_type: str) -> str | None:
    """Return a body as text where its Content-Type is text, or unknown and the bytes are UTF-8; else None.

    Bytes that are not of the charset are replaced where the type is text.
    """
    media = parse_essence(media_type)
    textual = is_textual(media)
    if media and not textual:
        return None
    try:
        return decode_text(body, charset_of(media_type) or "utf-8")
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace") if textual and b"\x00" not in body else None

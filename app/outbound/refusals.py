"""What an upstream says when it refuses, made readable, with no secret left in any spelling that is known."""

import contextlib
import json
import re
from typing import Any, Final

import orjson

from app.outbound.charsets import charset_of, decoded
from app.security.masking import Masker

# JSON text escapes as it likes: `\/`, `\u002B`, and twice over where JSON stands in a JSON string.
_ESCAPED: Final = re.compile(r"""\\+(?:u([0-9a-fA-F]{4})|([/"']))""")


def readable(raw: bytes, media_type: str, *, masker: Masker, limit: int, complete: bool) -> Any:
    """The body as JSON where it is JSON, else as text of at most `limit` characters, secrets as `***`.

    It is masked as bytes, as text, and once more after its escapes are resolved; keys and values alike.
    """
    text = _text(masker.mask_bytes(raw), media_type)
    if complete:
        try:
            text = orjson.dumps(orjson.loads(text)).decode()
        except (orjson.JSONDecodeError, TypeError):
            complete = len(text) <= limit
        else:
            return _parsed(_masked(text, masker))
    masked = _masked(text, masker)
    return masked if complete else f"{masked[:limit]} [cut off here]"


def _text(raw: bytes, media_type: str) -> str:
    # What its first bytes show to be UTF-16 or UTF-32 is that, whatever is said of it.
    shown = json.detect_encoding(raw)
    said = charset_of(media_type) or "utf-8"
    for charset in (said, shown) if shown.startswith("utf-8") else (shown, said):
        with contextlib.suppress(UnicodeDecodeError):
            text = decoded(raw, charset)
            # A NUL between any two characters would hide a secret from whoever looks for it.
            if text := text.replace("\x00", "").removeprefix("\ufeff"):
                return text
    return raw.decode("utf-8", "replace").replace("\x00", "")


def _masked(text: str, masker: Masker) -> str:
    masked = masker.mask(text)
    if "\\" not in masked:
        return masked
    plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], masked)
    # Two escapes make one character beyond the first plane.
    plain = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    struck = masker.mask(plain)
    return masked if struck == plain else struck


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text

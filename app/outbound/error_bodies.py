"""The body of an upstream's error response, made readable, without secrets in any known encoding."""

import contextlib
import json
import re
from typing import Any, Final

import orjson

from app.core import exact_json
from app.outbound.charsets import charset_of, decode_text
from app.security.masking import Masker

# JSON may escape any character: `\/`, `\u002B`, and twice over where JSON is embedded in a JSON string.
_ESCAPED: Final = re.compile(r"""\\+(?:u([0-9a-fA-F]{4})|([/"']))""")


def sanitize_error_body(raw: bytes, media_type: str, *, masker: Masker, limit: int, complete: bool) -> Any:
    """Return the body as parsed JSON, or as text of at most `limit` characters, with secrets as `***`.

    It is masked as bytes, as text, and again after its escapes are resolved; keys as well as values. With
    `complete` false, `raw` is only the beginning of the body, and is returned as text.
    """
    text = _text(masker.mask_bytes(raw), media_type)
    if complete:
        try:
            text = exact_json.dumps(orjson.loads(text)).decode()
        except (orjson.JSONDecodeError, TypeError):
            complete = len(text) <= limit
        else:
            return _parsed(_masked(text, masker))
    masked = _masked(text, masker)
    return masked if complete else f"{masked[:limit]} [truncated]"


def _text(raw: bytes, media_type: str) -> str:
    # What looks like UTF-16 or UTF-32 by its first bytes is decoded so, whatever the headers declare.
    detected = json.detect_encoding(raw)
    declared = charset_of(media_type) or "utf-8"
    for charset in (declared, detected) if detected.startswith("utf-8") else (detected, declared):
        with contextlib.suppress(UnicodeDecodeError):
            text = decode_text(raw, charset)
            # A NUL between two characters would hide a secret from the masker.
            if text := text.replace("\x00", "").removeprefix("\ufeff"):
                return text
    return raw.decode("utf-8", "replace").replace("\x00", "")


def _masked(text: str, masker: Masker) -> str:
    masked = masker.mask(text)
    if "\\" not in masked:
        return masked
    plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], masked)
    # Two escapes make one character outside the Basic Multilingual Plane.
    plain = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    masked_plain = masker.mask(plain)
    return masked if masked_plain == plain else masked_plain


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text

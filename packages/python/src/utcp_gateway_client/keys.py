"""API keys, as they may be in a header."""

import re
from typing import Final

_VISIBLE: Final = re.compile(r"[!-~]+")


def require_key(key: str | None) -> None:
    """Raise ValueError, which does not have the key, where it has characters that no key has.

    Libraries would show them together with the header. None and an empty text stand for no key.
    """
    if key and not _VISIBLE.fullmatch(key):
        raise ValueError("The API key has characters that no key has, such as blanks or line breaks.")

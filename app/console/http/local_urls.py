"""Paths of the console that a client names, to go on to: no other site may be among them."""

import re
from typing import Final

_MAX_LENGTH: Final = 2_000
# Visible ASCII only: browsers drop tabs and line ends from URLs, and take a backslash for a slash.
_PATH: Final = re.compile(r"/console(?:[/?#][!-\[\]-~]*)?")
_DOTS: Final = re.compile(r"/(?:\.|%2e){1,2}(?:[/?#]|$)", re.IGNORECASE)


def local_path(text: str, *, root: str = "") -> str | None:
    """Return a path of the console with its query, without `root` (ROOT_PATH) before it; None for any other
    text, in particular for URLs of other sites in any of their spellings.
    """
    if root and text.startswith(f"{root}/"):
        text = text[len(root) :]
    if len(text) > _MAX_LENGTH or not _PATH.fullmatch(text) or _DOTS.search(text):
        return None
    return text

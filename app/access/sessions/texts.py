"""The texts of sessions and of sign-in links, and the digests that are stored in place of them.

    ugs_<42 bytes in base64url>     a session
    ugl_<42 bytes in base64url>     a sign-in link

32 bytes are random; the other 10 are a keyed digest of these. A text that this gateway has not made is so
rejected without a query of the database.
"""

import base64
import binascii
import hmac
import os
from typing import Final, Literal

from app.security.secret import Secret
from app.security.vault import Vault

TextKind = Literal["session", "sign-in-link"]

_PREFIXES: Final = {"session": "ugs_", "sign-in-link": "ugl_"}
_RANDOM_BYTES: Final = 32
_CHECK_BYTES: Final = 10
_LENGTH: Final = 4 + (_RANDOM_BYTES + _CHECK_BYTES) * 4 // 3


def mint(kind: TextKind, *, vault: Vault) -> Secret:
    """Return a new random text; it is stored nowhere."""
    random = os.urandom(_RANDOM_BYTES)
    encoded = base64.urlsafe_b64encode(random + _check(kind, random, vault))
    return Secret(_PREFIXES[kind] + encoded.decode("ascii"))


def digest(kind: TextKind, text: str, *, vault: Vault) -> bytes | None:
    """Return the digest that is stored: HMAC-SHA-256 under the vault's digest key; None for a text that this
    gateway has not made.
    """
    if len(text) != _LENGTH or not text.isascii() or not text.startswith(_PREFIXES[kind]):
        return None
    try:
        decoded = base64.b64decode(text[4:], altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    random, check = decoded[:_RANDOM_BYTES], decoded[_RANDOM_BYTES:]
    if not hmac.compare_digest(check, _check(kind, random, vault)):
        return None
    return vault.digest(kind, random)


def link_token(text: str) -> str | None:
    """Return the token of a sign-in link, of which `text` is the URL or the token, not verified; None for any
    other text.
    """
    token = text.rpartition("#")[2]
    return token if token.startswith(_PREFIXES["sign-in-link"]) else None


def _check(kind: TextKind, random: bytes, vault: Vault) -> bytes:
    return vault.digest(f"{kind}-check", random)[:_CHECK_BYTES]

"""API keys: their form, and the digest that is stored in place of them.

    ugw_<id, 12>_<secret, 32><checksum, 6>

in an alphabet of 54 letters and digits that are not easily confused. The secret has 184 random bits, so that
a fast keyed hash is enough. The checksum (CRC-32 of all that precedes it) lets scanners recognise a leaked
key, and rejects typing errors without a query of the database; it does not protect anything.
"""

import hashlib
import re
import secrets
import zlib
from dataclasses import dataclass, field

from app.security.secret import Secret
from app.security.vault import Vault

PREFIX = "ugw"
ALPHABET = "2346789ABCDEFGHJKLMNPQRTUVWXYZabcdefghijkmnpqrstuvwxyz"
ID_LENGTH = 12
SECRET_LENGTH = 32
CHECKSUM_LENGTH = 6
KEY_LENGTH = len(PREFIX) + 2 + ID_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH
KEY_ID_PATTERN = f"^[{ALPHABET}]{{{ID_LENGTH}}}$"
ID_SLICE = slice(len(PREFIX) + 1, len(PREFIX) + 1 + ID_LENGTH)

_FORM = re.compile(f"{PREFIX}_([{ALPHABET}]{{12}})_([{ALPHABET}]{{32}})([{ALPHABET}]{{6}})")


@dataclass(frozen=True, slots=True)
class MintedKey:
    """A new key; `text` is shown to its creator once and is not stored."""

    text: Secret
    key_id: str


@dataclass(frozen=True, slots=True)
class KeyParts:
    """The parts of a text in the form of a key, which need not exist."""

    key_id: str
    text: str = field(repr=False)


def derived_id(text: str) -> str:
    """Return an id of the form of a key's, always the same for a text; it is that of no key."""
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest())
    return "".join(ALPHABET[number // len(ALPHABET) ** place % len(ALPHABET)] for place in range(ID_LENGTH))


def mint() -> MintedKey:
    """Return a new random key; it is stored nowhere."""
    key_id = _random(ID_LENGTH)
    body = f"{PREFIX}_{key_id}_{_random(SECRET_LENGTH)}"
    return MintedKey(text=Secret(body + _checksum(body)), key_id=key_id)


def parse(text: str) -> KeyParts | None:
    """Return the parts of a text with the form and checksum of a key; None for any other text."""
    if len(text) != KEY_LENGTH:
        return None
    match = _FORM.fullmatch(text)
    if match is None or _checksum(text[:-CHECKSUM_LENGTH]) != match[3]:
        return None
    return KeyParts(key_id=match[1], text=text)


def digest(text: str, *, vault: Vault) -> bytes:
    """Return the digest that is stored: HMAC-SHA-256 of the text under the vault's digest key."""
    return vault.digest("api-key", text.encode("utf-8", "surrogatepass"))


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    characters = []
    for _ in range(CHECKSUM_LENGTH):
        number, index = divmod(number, len(ALPHABET))
        characters.append(ALPHABET[index])
    return "".join(characters)

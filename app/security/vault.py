"""Sealing of secrets at rest: a ring of key-encryption keys, data keys wrapped by them, AES-256-GCM.

    key ring (environment, file)  --wraps-->  data keys (rows in Postgres)  --seal-->  fields

The first key of the ring wraps, all of them unwrap; a rotation puts a new key first, rewraps the data keys,
and removes the old key. Sealed values are not rewritten for that. A blob is

    version (1 byte) | data key id (16 bytes) | nonce (12 bytes) | ciphertext and tag

and its associated data are the length-prefixed parts of a context, so that a blob that was copied to another
tenant, credential, slot, version, origin or token URL does not open.
"""

import base64
import binascii
import hmac
import itertools
import os
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Literal
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app.core.errors import GatewayError
from app.core.uuid7 import uuid7

Purpose = Literal["data", "digest"]

_VERSION = b"\x01"
_KEY_ID = slice(1, 17)
_NONCE = slice(17, 29)
_HEADER = 29
_KEY_BYTES = 32
# 32 random bytes have fewer than 16 distinct values once in 10^13 keys.
_MIN_DISTINCT_BYTES = 16
_RING_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
_LENGTH = struct.Struct(">I").pack


class SealBroken(GatewayError):
    """A sealed value cannot be opened: another key, another context, or damaged bytes."""

    slug: ClassVar[str] = "seal-broken"
    title: ClassVar[str] = "A sealed value cannot be opened"
    hint = "Ask the operator to add the sealing key with which the value was stored to SEALING_KEYS."


@dataclass(frozen=True, slots=True)
class DataKey:
    """A row of the table of data keys. `wrapped` is nonce and ciphertext under the ring's key `kek_id`."""

    id: UUID
    purpose: str
    kek_id: str
    wrapped: bytes = field(repr=False)


class KeyRing:
    """The key-encryption keys, in order: the first one wraps, all of them unwrap."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        if not keys:
            raise ValueError("The key ring is empty: give at least one key as id:base64.")
        for key_id, key in keys.items():
            _check_key(key_id, key)
        if len(set(keys.values())) < len(keys):
            raise ValueError("The key ring holds the same key under two ids.")
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self.first = next(iter(keys))

    @classmethod
    def parse(cls, text: str) -> "KeyRing":
        """Parse `id:base64[,id2:base64...]`, newest first; each key has 32 random bytes.

        Raise ValueError, whose message has the id and no part of a key.
        """
        keys: dict[str, bytes] = {}
        for number, entry in enumerate((part.strip() for part in text.split(",")), start=1):
            key_id, colon, encoded = entry.partition(":")
            key_id = key_id.strip()
            if not colon or not _RING_ID.fullmatch(key_id):
                raise ValueError(
                    f"Key {number} of the key ring SEALING_KEYS is not id:base64 (an id has up to 32 "
                    "letters, digits, - or _): `utcp-gateway bootstrap --new-sealing-key` prints one."
                )
            if key_id in keys:
                raise ValueError(f"The key ring names the id {key_id!r} twice.")
            keys[key_id] = _decode(key_id, encoded.strip())
        return cls(keys)

    @staticmethod
    def generate(key_id: str) -> str:
        """Return a new random entry `id:base64`, to be put first in a ring."""
        return f"{key_id}:{base64.b64encode(os.urandom(_KEY_BYTES)).decode()}"

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the keys, in their order."""
        return tuple(self._ciphers)

    def __contains__(self, key_id: object) -> bool:
        return key_id in self._ciphers

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self._ciphers)})"

    def wrap(self, key: bytes, *, key_id: UUID, purpose: str) -> bytes:
        """Encrypt a data key with the first key of the ring; return nonce and ciphertext."""
        nonce = os.urandom(12)
        return nonce + self._ciphers[self.first].encrypt(
            nonce, key, _wrap_context(key_id, purpose, self.first)
        )

    def unwrap(self, row: DataKey) -> bytes:
        """Decrypt a data key; raise SealBroken for a key that is not in the ring, and for damaged rows."""
        cipher = self._ciphers.get(row.kek_id)
        if cipher is None:
            raise SealBroken(
                f"The key ring has no key with the id {row.kek_id!r}, which wraps a stored data key: "
                "add that key to SEALING_KEYS."
            )
        try:
            return cipher.decrypt(
                row.wrapped[:12], row.wrapped[12:], _wrap_context(row.id, row.purpose, row.kek_id)
            )
        except (InvalidTag, ValueError):
            raise SealBroken(
                f"A stored data key does not open with the key {row.kek_id!r} of the key ring: "
                "it was wrapped with another key of this id, or is damaged."
            ) from None


class Vault:
    """Seals, opens and digests with the data keys that were loaded.

    All methods are synchronous, take a few microseconds and are thread-safe.
    """

    def __init__(self, ring: KeyRing) -> None:
        self.ring = ring
        self._ciphers: dict[bytes, AESGCM] = {}
        self._newest: tuple[bytes, AESGCM] | None = None
        self._digest_key: bytes | None = None

    def load(self, rows: Iterable[DataKey]) -> None:
        """Replace the loaded data keys by the stored ones; raise SealBroken where one does not open.

        The newest key of purpose `data` seals from now on. Digests use the oldest key of purpose `digest`,
        since digests are stored and compared: a digest key is rewrapped but never replaced.
        """
        opened = [(row, self.ring.unwrap(row)) for row in sorted(rows, key=lambda row: row.id.bytes)]
        ciphers = {row.id.bytes: AESGCM(key) for row, key in opened if row.purpose == "data"}
        digest_keys = [key for row, key in opened if row.purpose == "digest"]
        self._ciphers = ciphers
        self._newest = next(reversed(ciphers.items()), None)
        self._digest_key = digest_keys[0] if digest_keys else None

    def new_data_key(self, purpose: Purpose) -> DataKey:
        """Return a new wrapped key, to be stored; it is used only once it is loaded by `load`."""
        key_id = uuid7()
        wrapped = self.ring.wrap(AESGCM.generate_key(256), key_id=key_id, purpose=purpose)
        return DataKey(id=key_id, purpose=purpose, kek_id=self.ring.first, wrapped=wrapped)

    def rewrap(self, row: DataKey) -> DataKey:
        """Return the data key wrapped by the first key of the ring; values sealed with it remain valid."""
        wrapped = self.ring.wrap(self.ring.unwrap(row), key_id=row.id, purpose=row.purpose)
        return DataKey(id=row.id, purpose=row.purpose, kek_id=self.ring.first, wrapped=wrapped)

    def seal(self, plaintext: bytes, *, context: tuple[str, ...]) -> bytes:
        """Return the plaintext encrypted as a blob, which can be opened only with the same context.

        Raise SealBroken where no data key is loaded.
        """
        if self._newest is None:
            raise SealBroken("No data key is loaded, so nothing can be sealed.")
        key_id, cipher = self._newest
        nonce = os.urandom(12)
        return _VERSION + key_id + nonce + cipher.encrypt(nonce, plaintext, _associated(context))

    def open(self, blob: bytes, *, context: tuple[str, ...]) -> bytes:
        """Return the plaintext of a blob; raise SealBroken where its data key is not loaded, the context
        differs, or the bytes are damaged.
        """
        cipher = self._ciphers.get(blob[_KEY_ID])
        if cipher is None or blob[:1] != _VERSION or len(blob) < _HEADER:
            raise SealBroken(_not_loaded(blob))
        try:
            return cipher.decrypt(blob[_NONCE], blob[_HEADER:], _associated(context))
        except InvalidTag:
            raise SealBroken("The sealed value belongs to another context, or is damaged.") from None

    def is_current(self, blob: bytes) -> bool:
        """Return whether the blob was sealed with the newest data key (others may be sealed anew)."""
        return self._newest is not None and blob[_KEY_ID] == self._newest[0]

    def digest(self, purpose: str, *parts: bytes) -> bytes:
        """Return the HMAC-SHA-256 of the purpose and the length-prefixed parts: 32 bytes, stable over
        rotations; raise SealBroken where no digest key is loaded.
        """
        if self._digest_key is None:
            raise SealBroken("No digest key is loaded.")
        return hmac.digest(self._digest_key, _prefixed((purpose.encode(), *parts)), "sha256")


def _not_loaded(blob: bytes) -> str:
    """Return why a blob does not open whose data key is not loaded, e.g. after a dump was restored."""
    if len(blob) < _HEADER or blob[:1] != _VERSION:
        return "The sealed value is damaged."
    return (
        f"The value was sealed with the data key {UUID(bytes=blob[_KEY_ID])}, which is not loaded: "
        "it was stored after the gateway started; restart the gateway."
    )


def _prefixed(parts: Iterable[bytes]) -> bytes:
    """Return the parts joined with their lengths, so that no two lists of parts give the same bytes."""
    return b"".join([piece for part in parts for piece in (_LENGTH(len(part)), part)])


@lru_cache(maxsize=4096)
def _associated(context: tuple[str, ...]) -> bytes:
    """Return the context as bytes; cached, since it is not secret and the same at each call of a tool."""
    return _prefixed([part.encode() for part in context])


def _wrap_context(key_id: UUID, purpose: str, kek_id: str) -> bytes:
    return _prefixed((b"data-key", key_id.bytes, purpose.encode(), kek_id.encode()))


def _decode(key_id: str, encoded: str) -> bytes:
    try:
        standard = encoded.replace("-", "+").replace("_", "/")
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except binascii.Error:
        raise ValueError(f"The key {key_id!r} of the key ring is not base64.") from None


def _check_key(key_id: str, key: bytes) -> None:
    """Raise ValueError for placeholders in place of a random key; the message has no part of the key."""
    advice = "make one with `openssl rand -base64 32`"
    if len(key) != _KEY_BYTES:
        raise ValueError(f"The key {key_id!r} of the key ring has {len(key)} bytes instead of 32: {advice}.")
    steps = {(after - before) % 256 for before, after in itertools.pairwise(key)}
    repeated = len(set(key)) < _MIN_DISTINCT_BYTES
    readable = all(0x20 <= byte < 0x7F for byte in key)
    if repeated or readable or len(steps) == 1:
        raise ValueError(
            f"The key {key_id!r} of the key ring is a placeholder, not 32 random bytes: {advice}."
        )

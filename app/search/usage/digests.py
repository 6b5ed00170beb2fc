"""Keyed digests, in place of what was searched for and by whom.

They are made with the vault's digest key, which the key ring wraps: a rotation of the ring rewraps that key,
and the digests stay the same.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from uuid import UUID

from app.security.vault import Vault

_BYTES: Final = 16


class UsageDigests:
    """Makes the digests of stems and keys of a tenant: 16 bytes of HMAC-SHA-256. Thread-safe."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._digest_key_id = lru_cache(maxsize=4096)(self._make_key)

    def digest_stems(self, stems: Iterable[str], tenant_id: UUID) -> list[bytes]:
        """Return the digest of each stem."""
        digest, tenant = self._vault.digest, tenant_id.bytes
        return [digest("search-stem", tenant, stem.encode())[:_BYTES] for stem in stems]

    def digest_key(self, key_id: str, tenant_id: UUID) -> bytes:
        """Return the digest of the id of a key, or of an identity of access tokens."""
        return self._digest_key_id(key_id, tenant_id)

    def _make_key(self, key_id: str, tenant_id: UUID) -> bytes:
        return self._vault.digest("search-key", tenant_id.bytes, key_id.encode())[:_BYTES]

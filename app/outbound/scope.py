"""Which requests may share connections: those of one provider with the same stored credentials."""

import hashlib
from collections.abc import Iterable
from uuid import UUID

from app.security.sealed_credentials import SealedCredential


def connection_scope(
    tenant_id: UUID, provider_id: UUID, credentials: Iterable[SealedCredential], *, purpose: str = "call"
) -> bytes:
    """Return the connection scope of requests that may carry these credentials, 32 bytes.

    It is equal for the same provider, slots, and versions of the credentials and of the variables that they
    name. It is derived from ids and versions, not from secrets. A credential of one principal has an id of
    its own, so its connections are not shared with other principals.
    """
    parts = [purpose.encode(), tenant_id.bytes, provider_id.bytes]
    for credential in sorted(credentials, key=lambda one: (one.slot, one.id)):
        parts += (credential.slot.encode(), credential.id.bytes, str(credential.version).encode())
        for variable in credential.variables:
            parts += (variable.name.encode(), variable.id.bytes, str(variable.version).encode())
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(4, "big") + part)
    return digest.digest()

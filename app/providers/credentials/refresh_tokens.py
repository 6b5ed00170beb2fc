"""Refresh tokens that a token endpoint has issued in place of the stored one (RFC 6749 section 6).

They are sealed with the other fields of their credential, in the same row and bound to the same version: what
its owner stores later replaces them. Reading, requesting and writing are separate transactions, because no
connection to the database is held while an upstream is awaited; the token cache's lock in Redis lets one
process at a time request a token.
"""

from collections import OrderedDict
from typing import Final
from uuid import UUID

import structlog
from sqlalchemy import select
from sqlmodel import col

from app.catalog.loader import VariableFinder, sealed_credential
from app.core.errors import GatewayError
from app.outbound.oauth2 import TokenRequest
from app.security.sealed_credentials import open_credential, seal_credential
from app.security.secret import Secret
from app.security.vault import Vault
from app.storage.database import Database
from app.storage.models import Credential

ISSUED: Final = "issued"
"""The sealed member with the last refresh token, and a digest of the stored one that it goes back to."""
_MAX_UNSAVED: Final = 4096
_NO_VARIABLES: Final = VariableFinder("", (), {})
_log = structlog.get_logger(__name__)


class IssuedRefreshTokens:
    """Reads and stores the refresh tokens of stored credentials.

    One that cannot be stored, because PostgreSQL cannot be reached, is held in the memory of this process
    until the next one is stored.
    """

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        self._unsaved: OrderedDict[tuple[UUID, int], Secret] = OrderedDict()

    async def current(self, request: TokenRequest) -> Secret:
        """Return the refresh token to use: the last that was issued, else that of the request.

        Raises Unavailable and SealBroken.
        """
        unsaved = self._unsaved.get((request.credential_id, request.version))
        if unsaved is not None:
            return unsaved
        statement = select(Credential).where(
            col(Credential.id) == request.credential_id, col(Credential.version) == request.version
        )
        async with self._database.read_session() as session:
            row = (await session.execute(statement)).scalar_one_or_none()
        given = request.refresh_token or Secret("")
        if row is None:
            return given
        fields = open_credential(sealed_credential(row, finder=_NO_VARIABLES), vault=self._vault)
        issued = fields.get(ISSUED)
        if not isinstance(issued, dict) or issued.get("replaces") != self._digest(given):
            # The stored one may be a variable, which has another value now.
            return given
        return Secret(str(issued["token"]))

    async def replace(self, request: TokenRequest, issued: Secret) -> None:
        """Store a newly issued refresh token; a credential that was stored again meanwhile keeps its own."""
        key = (request.credential_id, request.version)
        self._unsaved[key] = issued
        while len(self._unsaved) > _MAX_UNSAVED:
            self._unsaved.popitem(last=False)
        statement = select(Credential).where(
            col(Credential.id) == request.credential_id, col(Credential.version) == request.version
        )
        try:
            async with self._database.transaction() as session:
                row = (await session.execute(statement.with_for_update())).scalar_one_or_none()
                if row is not None:
                    sealed = sealed_credential(row, finder=_NO_VARIABLES)
                    fields = open_credential(sealed, vault=self._vault)
                    given = request.refresh_token or Secret("")
                    fields[ISSUED] = {"replaces": self._digest(given), "token": issued.reveal()}
                    row.sealed = seal_credential(sealed, vault=self._vault, fields=fields).sealed
        except GatewayError as error:
            _log.warning("refresh_token_not_stored", credential=str(request.credential_id), error=error.slug)
            return
        self._unsaved.pop(key, None)

    def _digest(self, token: Secret) -> str:
        return self._vault.digest("refresh-token", token.reveal().encode()).hex()

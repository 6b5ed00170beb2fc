"""What authorisation knows of access tokens without the libraries that verify them (`access_tokens`).

A gateway without an issuer of access tokens does not import those.
"""

from typing import Final, Protocol

from app.core.errors import Unauthenticated
from app.security.principal import Principal

TOKEN_ID_PREFIX: Final = "oauth:"
"""The beginning of the id of a principal that has an access token; ids of API keys have no colon."""
MAX_TOKEN_LENGTH: Final = 8_192
"""Characters of an access token; longer ones are rejected unread."""


class TokenExpired(Unauthenticated):
    """The access token is genuine, and has expired."""


class TokenVerifier(Protocol):
    """Verifies access tokens: `access_tokens.AccessTokens`."""

    def has_form(self, text: str) -> bool:
        """Return whether a credential has the form of an access token, which no API key has."""
        ...

    async def verify(self, text: str, path: str) -> Principal:
        """Return the principal of a token for the resource to which the path of a request belongs.

        Raise TokenExpired for one that has expired, and Unauthenticated for any other text.
        """
        ...

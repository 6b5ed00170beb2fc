"""How assertions (JWTs, RFC 7523) are signed: the settings, which are part of a token's cache key.

The signing itself is in `token_requests`, which is imported at the first token request.
"""

from dataclasses import dataclass

from app.security.secret import Secret

ASSERTION_SECONDS = 300
"""How long an assertion is valid; Google allows an hour, other servers less."""


@dataclass(frozen=True, slots=True)
class AssertionSettings:
    """How a client signs assertions.

    `private_key` is PEM. `issuer`, `subject` and `audience` are claims of the grant jwt_bearer; an assertion
    that authenticates the client has its client id as issuer and subject. `algorithm` "" stands for the
    default of the key. With `has_scope`, the scope is a claim and no parameter of the request (Google).
    """

    private_key: Secret
    issuer: str = ""
    subject: str = ""
    audience: str = ""
    key_id: str = ""
    algorithm: str = ""
    has_scope: bool = False

    def parts(self) -> tuple[bytes, ...]:
        """Return all fields as bytes for a keyed digest."""
        texts = (self.issuer, self.subject, self.audience, self.key_id, self.algorithm, str(self.has_scope))
        return (self.private_key.reveal().encode(), *(text.encode() for text in texts))

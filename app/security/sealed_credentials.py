"""Stored credentials and variables, as the call path uses them: sealed, and bound to a context.

The public members are a JSON object in plain text, the secret ones a sealed JSON object:

    kind     public                                                        sealed
    api_key  {"location": "header"|"query"|"cookie", "name"}               {"value"}
    basic    {}                                                            {"username", "password"}
    bearer   {"scheme"}, where it is not `Bearer`                          {"token"}
    oauth2   {"token_url", "scope", "audience", "resource",                {"client_id", "client_secret"}
              "token_endpoint_auth_method"}, or "metadata_url" in place
             of "token_url",
             and the members of `utcp.oauth2_grant.OAuth2Grant`            ("refresh_token", "private_key")
    static   {}                                                            {"headers", "query", "basic"}
    aws_sigv4
             {"region", "service"}                                         {"access_key_id", "session_token",
                                                                            "secret_access_key"}
    hmac     the members of `utcp.signature_recipe.SignatureRecipe`        {"secret", "key_id"}
    digest   {}                                                            {"username", "password"}
    google_service_account
             {"token_url", "scope", "subject"}                             {"key"}

`static` is for values within a call template: its headers, its URL's query and userinfo.
Sealed fields may contain `${NAME}`, which is replaced by a variable at each call.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args
from uuid import UUID

import orjson

from app.core import exact_json
from app.security.vault import SealBroken, Vault

CredentialKind = Literal[
    "api_key", "basic", "bearer", "oauth2", "static", "aws_sigv4", "hmac", "digest", "google_service_account"
]
CREDENTIAL_KINDS: tuple[CredentialKind, ...] = get_args(CredentialKind)
TOKEN_KINDS: Final = frozenset({"oauth2", "google_service_account"})
"""The kinds of which a token is requested, and sent in place of the credential."""
UNSENT_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "aws_sigv4": frozenset({"secret_access_key"}),
    "hmac": frozenset({"secret"}),
    "digest": frozenset({"password"}),
    "oauth2": frozenset({"private_key"}),
    "google_service_account": frozenset({"key"}),
}  # fmt: skip
"""For each kind, the sealed members that are never sent: with these, requests or assertions are signed."""
RELEASED_KINDS: Final[Mapping[str, str]] = {
    "aws_sigv4": "api_key", "hmac": "api_key", "digest": "basic", "google_service_account": "oauth2",
}  # fmt: skip
"""For each kind that the contract of release 0.2.0 does not have, the most similar kind that it has."""


@dataclass(frozen=True, slots=True)
class CredentialDraft:
    """A credential before it is sealed, in the members of the table above.

    A member of `public` that is None is taken from the security scheme of the slot. `allowed_origins` are the
    only origins that it may be sent to; with None, the default origins are used.
    """

    kind: CredentialKind
    public: dict[str, Any]
    secrets: dict[str, Any] = field(repr=False)
    allowed_origins: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SealedVariable:
    """A variable that sealed fields refer to as `${NAME}`: `value` when it is public, `sealed` when it is
    secret.

    A secret variable of the environment is not sealed: its `value` is in the memory of the process.

    `provider_id` is None for a variable of the whole tenant. The version increases with each write.
    `allowed_origins` are the only ones to which it is sent, None where there is no such limit.
    """

    id: UUID
    tenant_id: UUID
    name: str
    secret: bool
    value: str | None = field(repr=False)
    sealed: bytes | None = field(repr=False)
    version: int
    provider_id: UUID | None
    allowed_origins: tuple[str, ...] | None = None
    _context: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        owner = "" if self.provider_id is None else str(self.provider_id)
        parts = ("variable", str(self.tenant_id), owner, str(self.id), self.name, str(self.version))
        object.__setattr__(self, "_context", parts)

    def context(self) -> tuple[str, ...]:
        """Return the associated data of `sealed`."""
        return self._context


@dataclass(frozen=True, slots=True)
class SealedCredential:
    """A provider's credential for one slot, with the variables that its sealed fields name.

    `allowed_origins` are `scheme://host[:port]` in lower case without a default port; the credential is
    attached to no other origin. The version increases with each write, so that cached tokens of an older
    version are not used.
    """

    id: UUID
    tenant_id: UUID
    provider_id: UUID
    slot: str
    version: int
    kind: CredentialKind
    public: Mapping[str, Any]
    allowed_origins: tuple[str, ...]
    sealed: bytes = field(repr=False)
    variables: tuple[SealedVariable, ...] = ()
    _context: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Built once: it is needed at each call, and formatting three UUIDs costs more than the decryption.
        ids = (str(self.tenant_id), str(self.provider_id), str(self.id))
        fixed = ("credential", *ids, self.slot, str(self.version), self.kind)
        token_url = str(self.public.get("token_url") or "")
        object.__setattr__(self, "_context", (*fixed, token_url, *sorted(self.allowed_origins)))

    def context(self) -> tuple[str, ...]:
        """Return the associated data of `sealed`: its owner, its version and its allowed destinations."""
        return self._context


def seal_credential(
    credential: SealedCredential, *, vault: Vault, fields: Mapping[str, Any]
) -> SealedCredential:
    """Return a copy of the credential (which has `sealed=b""`) with these secret fields sealed."""
    blob = vault.seal(exact_json.dumps(dict(fields)), context=credential.context())
    return replace(credential, sealed=blob)


def open_credential(credential: SealedCredential, *, vault: Vault) -> dict[str, Any]:
    """Return the secret fields with `${NAME}` unresolved; raise SealBroken where they do not open."""
    fields = orjson.loads(vault.open(credential.sealed, context=credential.context()))
    if not isinstance(fields, dict):
        raise SealBroken("A sealed credential is not an object.")
    return fields


def seal_variable(variable: SealedVariable, *, vault: Vault, value: str) -> SealedVariable:
    """Return a copy of the variable with this value: sealed where it is secret, else in plain text."""
    if not variable.secret:
        return replace(variable, value=value, sealed=None)
    return replace(variable, value=None, sealed=vault.seal(value.encode(), context=variable.context()))


def open_variable(variable: SealedVariable, *, vault: Vault) -> str | None:
    """Return the value, or None where none is stored; raise SealBroken where it does not open."""
    if not variable.secret or variable.value is not None:
        return variable.value
    return (
        None if variable.sealed is None else vault.open(variable.sealed, context=variable.context()).decode()
    )

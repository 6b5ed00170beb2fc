"""Stored credentials and variables as the call path has them: sealed, and bound to a context.

What is public is readable JSON; what is secret is one sealed JSON object:

    kind     public                                                        sealed
    api_key  {"location": "header"|"query"|"cookie", "name"}               {"value"}
    basic    {}                                                            {"username", "password"}
    bearer   {}                                                            {"token"}
    oauth2   {"token_url", "scope", "audience", "resource",                {"client_id", "client_secret"}
              "token_endpoint_auth_method"}
    static   {}                                                            {"headers", "query", "basic"}

`static` are the values within a call template itself: its headers, its URL's query and userinfo.
Sealed fields may contain `${NAME}`, which is replaced by a variable at each call.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import UUID

import orjson

from app.security.vault import SealBroken, Vault

CredentialKind = Literal["api_key", "basic", "bearer", "oauth2", "static"]
CREDENTIAL_KINDS: tuple[CredentialKind, ...] = ("api_key", "basic", "bearer", "oauth2", "static")


@dataclass(frozen=True, slots=True)
class CredentialDraft:
    """A credential before it is sealed, in the members of the table above.

    A member of `public` that is None is filled in from the security scheme of its slot. `allowed_origins` are
    the only origins that it may be sent to; None stands for the default.
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
    """

    id: UUID
    tenant_id: UUID
    name: str
    secret: bool
    value: str | None = field(repr=False)
    sealed: bytes | None = field(repr=False)
    version: int
    provider_id: UUID | None
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
        """Return the associated data of `sealed`: who owns it, which version it is, and where it may go."""
        return self._context


def seal_credential(
    credential: SealedCredential, *, vault: Vault, fields: Mapping[str, Any]
) -> SealedCredential:
    """Return a copy of the credential (which has `sealed=b""`) with these secret fields sealed."""
    blob = vault.seal(orjson.dumps(dict(fields)), context=credential.context())
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

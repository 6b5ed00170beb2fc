"""What an API key may do in a registration: store credentials, and name secrets that belong to all.

One rule (decision 35): only a key with `credentials:write` changes where, or over what trust, a credential
travels. Every option of a provider stands in exactly one of the three tables below; one that stands in none
needs the scope, and fails the test that enumerates them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from app.errors import FieldError, Forbidden
from app.security.principal import Principal
from app.text import pointer

_SCOPE: Final = "credentials:write"

CREDENTIALS_WRITE_OPTIONS: Final[Mapping[str, Any]] = {
    "proxy_url": None,
    "proxy_resolves": False,
    "ca_bundle": None,
    "client_certificate": None,
    "client_key": None,
    "mask_responses": True,
}
"""Options that only a key with `credentials:write` sets or changes, at a registration, too: they decide over
what trust every request of the provider travels, those with credentials that are stored later included, and
whether its secrets are masked in responses. The value is what holds where the option is not set.
"""
DESTINATION_OPTIONS: Final = frozenset({"base_url"})
"""Options that name a destination: free for `providers:write` while the provider holds no secret, and never
part of where a credential goes by default before a key with `credentials:write` has set them.
"""
HARMLESS_OPTIONS: Final = frozenset({"direct", "reuse"})
"""Options that move no credential and no trust."""


@dataclass(frozen=True, slots=True)
class RegistrationPermissions:
    """What one API key may do. `seals`: store credentials. `shared`: it is not limited to providers or tags.

    `used` are the names of variables that the provider uses already, which a refresh may repeat.
    """

    may_write_credentials: bool
    may_use_shared_secrets: bool
    used_variables: frozenset[str] = frozenset()

    def require_credentials_write(self) -> None:
        """Raise Forbidden for a key that may not store credentials, wherever they stand."""
        if not self.may_write_credentials:
            raise Forbidden(
                f"The API key lacks the scope `{_SCOPE}`, which credentials and variables need, "
                "also those in auth, headers, userinfo and query values of a template.",
                extra={"missing_scopes": [_SCOPE]},
            )

    def require_options_write(
        self, given: Mapping[str, Any], *, stored: Mapping[str, Any] | None = None, at: str
    ) -> None:
        """Raise Forbidden, with pointers below `at`, for options that take the scope and would change.

        `stored` are the present ones; what equals them, or the default of a new provider, is no change.
        """
        if self.may_write_credentials:
            return
        present = stored or {}
        changed = [name for name, value in given.items() if _takes_scope(name, value, present.get(name))]
        if changed:
            raise destination_denied([pointer(at, name) for name in changed])

    def require_destination_write(self, at: str) -> None:
        """Raise Forbidden, pointing `at` the field, for a key that may not say where credentials go."""
        if not self.may_write_credentials:
            raise destination_denied([at])

    def require_deletion(self, provider: str) -> None:
        """Raise Forbidden for a key that may not delete what is stored for a provider."""
        if not self.may_write_credentials:
            raise Forbidden(
                f"Credentials or secret variables of {provider!r} would be deleted with it, which takes the "
                f"scope `{_SCOPE}`.",
                extra={"missing_scopes": [_SCOPE]},
            )

    def require_shared_secret(self, name: str, *, environment: bool) -> None:
        """Raise Forbidden where a limited key names a secret that belongs to all providers.

        To name one of the environment takes the scope, too: it may stand where it is shown.
        """
        if name in self.used_variables:
            return
        if environment:
            self.require_credentials_write()
        if not self.may_use_shared_secrets:
            raise Forbidden(
                "The API key is limited to certain providers or tags; "
                f"the secret variable {name} belongs to all. Give the provider a variable of its own."
            )

    def with_used_variables(self, names: Iterable[str]) -> "RegistrationPermissions":
        """Return the permissions for a provider that uses these variables already."""
        return replace(self, used_variables=frozenset(names))


UNRESTRICTED: Final = RegistrationPermissions(may_write_credentials=True, may_use_shared_secrets=True)


def permissions_of(principal: Principal) -> RegistrationPermissions:
    """Return what the scopes and limits of the API key allow."""
    return RegistrationPermissions(
        may_write_credentials=principal.has_scope(_SCOPE),
        may_use_shared_secrets=principal.providers is None and principal.tags is None,
    )


def destination_denied(pointers: Iterable[str]) -> Forbidden:
    """Return the error for fields that decide where a credential goes, for a key without the scope."""
    faults = [FieldError(at, f"To change this takes the scope `{_SCOPE}`.") for at in pointers]
    return Forbidden(
        f"The API key lacks the scope `{_SCOPE}`: without it, nothing is changed that decides where, or over "
        "what trust, credentials travel.",
        errors=faults,
        extra={"missing_scopes": [_SCOPE]},
    )


def _takes_scope(name: str, value: Any, present: Any) -> bool:
    if name in DESTINATION_OPTIONS or name in HARMLESS_OPTIONS:
        return False
    default = CREDENTIALS_WRITE_OPTIONS.get(name)
    return bool((default if value is None else value) != (default if present is None else present))

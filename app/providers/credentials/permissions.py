"""The permissions of an API key in a registration: storing credentials, and using shared secret variables.

The rule (decision 35): only a key with `credentials:write` may change the destination of a credential, or the
trust settings (proxy, CA bundle, client certificate, masking) of the connections on which it is sent. Every
option of a provider is in exactly one of the three tables below; an option that is in none requires the
scope, and a test that enumerates the options fails.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from app.core.errors import FieldError, Forbidden, scopes_missing
from app.core.text import pointer
from app.security.principal import Principal

_SCOPE: Final = "credentials:write"

CREDENTIALS_WRITE_OPTIONS: Final[Mapping[str, Any]] = {
    "proxy_url": None,
    "proxy_resolves": False,
    "ca_bundle": None,
    "client_certificate": None,
    "client_key": None,
    "unix_socket": None,
    "mask_responses": True,
    "redirect_origin": None,
}
"""Options that only a key with `credentials:write` may set or change, also at registration, with their
defaults. They determine how every request of the provider is sent, including requests with credentials that
are stored later, whether its secrets are masked in responses, and where credentials go that were meant for
the origin of its source.
"""
DESTINATION_OPTIONS: Final = frozenset({"base_url", "server", "server_variables"})
"""Options that name a destination. A key with `providers:write` may set them while the provider has no
secret; a destination that such a key has set is not a default destination of credentials.
"""
HARMLESS_OPTIONS: Final = frozenset({"allow_empty", "direct", "http_version", "responses", "reuse"})
"""Options that affect neither the destination of a credential nor the trust settings of its connection."""


@dataclass(frozen=True, slots=True)
class RegistrationPermissions:
    """The permissions of one API key. `may_use_shared_secrets` is True for a key without restrictions to
    providers or tags.

    `used_variables` are the names of shared secret variables that the provider already uses, and which are
    therefore permitted in a refresh.
    """

    may_write_credentials: bool
    may_use_shared_secrets: bool
    used_variables: frozenset[str] = frozenset()

    def require_credentials_write(self) -> None:
        """Raise Forbidden for a key that may not store credentials, whether in a slot or in a template."""
        if not self.may_write_credentials:
            raise scopes_missing(
                f"The API key lacks the scope `{_SCOPE}`, which is required for credentials and variables, "
                "also those in auth, headers, userinfo and query values of a template.",
                [_SCOPE],
            )

    def require_options_write(
        self, options: Mapping[str, Any], *, stored: Mapping[str, Any] | None = None, at: str
    ) -> None:
        """Raise Forbidden, with pointers below `at`, for options whose change requires the scope.

        An option is changed where it differs from the stored one, or from the default where none is stored.
        """
        if self.may_write_credentials:
            return
        current = stored or {}
        changed = [name for name, value in options.items() if _requires_scope(name, value, current.get(name))]
        if changed:
            raise destination_denied([pointer(at, name) for name in changed])

    def require_destination_write(self, at: str) -> None:
        """Raise Forbidden, with the pointer `at`, for a key that may not change the destination of
        credentials.
        """
        if not self.may_write_credentials:
            raise destination_denied([at])

    def require_deletion(self, provider: str) -> None:
        """Raise Forbidden for a key that may not delete credentials and secret variables of a provider."""
        if not self.may_write_credentials:
            raise scopes_missing(
                f"Credentials or secret variables of {provider!r} would be deleted with it, which requires "
                f"the scope `{_SCOPE}`.",
                [_SCOPE],
            )

    def require_shared_secret(self, name: str, *, environment: bool) -> None:
        """Raise Forbidden for a key that may not use the secret variable `name`, which all providers share.

        A variable of the `environment` also requires the scope, since it may be used in fields that are
        shown.
        """
        if name in self.used_variables:
            return
        if environment:
            self.require_credentials_write()
        if not self.may_use_shared_secrets:
            raise Forbidden(
                "The API key is restricted to some providers or tags, and "
                f"the secret variable {name} is shared by all. Give the provider a variable of its own."
            )

    def with_used_variables(self, names: Iterable[str]) -> "RegistrationPermissions":
        """Return these permissions for a provider that already uses these variables."""
        return replace(self, used_variables=frozenset(names))


UNRESTRICTED: Final = RegistrationPermissions(may_write_credentials=True, may_use_shared_secrets=True)


def permissions_of(principal: Principal) -> RegistrationPermissions:
    """Return the permissions that the scopes and restrictions of the API key grant."""
    return RegistrationPermissions(
        may_write_credentials=principal.has_scope(_SCOPE),
        may_use_shared_secrets=not principal.is_restricted,
    )


def destination_denied(pointers: Iterable[str]) -> Forbidden:
    """Return the error for a key that lacks the scope for changing these fields, which determine the
    destination of a credential.
    """
    errors = [FieldError(at, f"Changing this requires the scope `{_SCOPE}`.") for at in pointers]
    denied = scopes_missing(
        f"The API key lacks the scope `{_SCOPE}`: it is required for changing the destination of "
        "credentials, or the trust settings of the connections on which they are sent.",
        [_SCOPE],
    )
    denied.errors = tuple(errors)
    return denied


def _requires_scope(name: str, value: Any, current: Any) -> bool:
    if name in DESTINATION_OPTIONS or name in HARMLESS_OPTIONS:
        return False
    default = CREDENTIALS_WRITE_OPTIONS.get(name)
    return bool((default if value is None else value) != (default if current is None else current))

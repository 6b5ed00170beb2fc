"""Credential slots, the requirements of tools, and the credentials of a registration.

A credential has three shapes: `CredentialInput` as a client sends it (or the `auth` of a call template),
`CredentialDraft` with its secrets separated from its public members, and the sealed row `Credential`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.security.requirements import (
    SecurityRequirements,
    SlotRequirement,
    compile_security,
    security_json,
    slot_names,
)
from app.security.sealed_credentials import CredentialDraft, CredentialKind

__all__ = [
    "DEFAULT_SLOT",
    "DISCOVERY_SLOTS",
    "DISCOVERY_STATIC",
    "EGRESS_SLOT",
    "CredentialDraft",
    "CredentialSlot",
    "Json",
    "MissingConsent",
    "SecurityRequirements",
    "SlotAssignment",
    "SlotKind",
    "SlotRequirement",
    "ValueLocation",
    "VariableDraft",
    "compile_security",
    "security_json",
    "slot_names",
]  # fmt: skip

Json = dict[str, Any]
"""A JSON object without a class of its own: a JSON Schema, a call template, stored options."""

DEFAULT_SLOT = "default"
DISCOVERY_STATIC = "discovery-static"
DISCOVERY_SLOTS = ("discovery", DISCOVERY_STATIC)
EGRESS_SLOT = "egress"

SlotKind = CredentialKind | Literal["mutual_tls", "any", "unsupported"]


@dataclass(frozen=True, slots=True)
class ValueLocation:
    """The location of one value of a credential of kind `static`.

    `location` is header, query, userinfo or field. `name` is the name of the header or parameter, `username`
    or `password`, or a JSON pointer into the template.
    """

    location: str
    name: str

    def to_json(self) -> Json:
        """Return `{"location", "name"}`."""
        return {"location": self.location, "name": self.name}


@dataclass(frozen=True, slots=True)
class CredentialSlot:
    """A named place for a credential that tools of a provider need, as its source describes it.

    `scheme` is the name of the security scheme in an OpenAPI document; `location` and `parameter` are those
    of an API key; `http_scheme` precedes the credentials of a bearer, where it is not `Bearer`;
    `metadata_url` is where the token URL is found, if the source does not name it; `scopes` are OAuth2
    scopes, None where the source has no such list; `values` are the locations of a credential of kind
    `static`. `fingerprint` is that of a credential that was in the manual itself; `is_fallback` marks the
    slot of tools without auth of their own.
    """

    name: str
    kind: SlotKind
    scheme: str | None = None
    location: str | None = None
    parameter: str | None = None
    http_scheme: str | None = None
    token_url: str | None = None
    metadata_url: str | None = None
    scopes: tuple[str, ...] | None = None
    description: str | None = None
    values: tuple[ValueLocation, ...] = ()
    fingerprint: str | None = None
    is_fallback: bool = False

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "CredentialSlot":
        """Return the slot from its JSON form (see `to_json`), which provider rows, exports and converted
        documents have.
        """
        scopes = stored.get("scopes")
        return cls(
            name=str(stored["slot"]),
            kind=stored["kind"],
            scheme=stored.get("scheme") or None,
            location=stored.get("location") or None,
            parameter=stored.get("name") or None,
            http_scheme=stored.get("http_scheme") or None,
            token_url=stored.get("token_url") or None,
            metadata_url=stored.get("metadata_url") or None,
            scopes=None if scopes is None else tuple(scopes),
            description=stored.get("description") or None,
            values=tuple(ValueLocation(one["location"], one["name"]) for one in stored.get("values") or ()),
            fingerprint=stored.get("inline"),
            is_fallback=bool(stored.get("fallback")),
        )

    def to_json(self) -> Json:
        """Return the slot as a JSON object, without members that are not set; the inverse of `from_json`."""
        members = {
            "slot": self.name,
            "kind": self.kind,
            "scheme": self.scheme,
            "location": self.location,
            "name": self.parameter,
            "http_scheme": self.http_scheme,
            "token_url": self.token_url,
            "metadata_url": self.metadata_url,
            "scopes": None if self.scopes is None else list(self.scopes),
            "description": self.description,
            "values": [one.to_json() for one in self.values] or None,
            "inline": self.fingerprint,
            "fallback": self.is_fallback or None,
        }
        return {key: value for key, value in members.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SlotAssignment:
    """A credential from a call template, the slot that it was assigned, and the origins of its tools.

    `is_shared` says that it is the registrar's `auth_tools`; it may also be in the templates of tools.
    """

    slot: str
    credential: CredentialDraft
    fingerprint: str
    origins: tuple[str, ...] = ()
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class VariableDraft:
    """The value of a variable before it is sealed. In a registration, it is a variable of the provider.

    `allowed_origins` are the only ones to which a secret that all providers share is sent; None leaves them.
    """

    value: str = field(repr=False)
    secret: bool = True
    allowed_origins: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class MissingConsent:
    """Destinations of a slot's credential in the source, for which the consent of its owner is missing.

    `origins` are those of tools that need the slot, but to which its credential is not sent; `token_url` is a
    token URL in the source that is not used.
    """

    slot: str
    origins: tuple[str, ...] = ()
    token_url: str | None = None

    def to_json(self) -> Json:
        """Return `{"slot", "origins", "token_url"}`."""
        return {"slot": self.slot, "origins": list(self.origins), "token_url": self.token_url}

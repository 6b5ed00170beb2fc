"""Credential slots, what tools need of them, and what a registration puts into them.

A credential has three shapes: `CredentialInput` as a client sends it (or the `auth` of a call template),
`CredentialDraft` with its secrets apart, and the sealed row `Credential`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from app.outbound.credentials import SecurityRequirements, SlotRequirement, compile_security
from app.security.credentials import CredentialDraft

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
"""A JSON object of members that are not ours: a JSON Schema, a call template, options as they are stored."""

DEFAULT_SLOT = "default"
DISCOVERY_STATIC = "discovery-static"
DISCOVERY_SLOTS = ("discovery", DISCOVERY_STATIC)
EGRESS_SLOT = "egress"

SlotKind = Literal["api_key", "basic", "bearer", "oauth2", "static", "any", "unsupported"]


@dataclass(frozen=True, slots=True)
class ValueLocation:
    """Where one value of a credential of kind `static` belongs: `location` is header, query, userinfo or
    field; `name` that of the header or parameter, username or password, or a JSON pointer into the template.
    """

    location: str
    name: str

    def to_json(self) -> Json:
        """Return `{"location", "name"}`."""
        return {"location": self.location, "name": self.name}


@dataclass(frozen=True, slots=True)
class CredentialSlot:
    """A named place for a credential that tools of a provider need, as its source describes it.

    `scheme` is the name of the security scheme in an OpenAPI document; `location` and `parameter` say where
    an API key goes; `scopes` are OAuth2 scopes, None where the source has no such list; `values` say what a
    credential of kind `static` consists of. `fingerprint` is that of the credential that stood in a manual
    itself; `is_fallback` marks the slot of tools without auth of their own.
    """

    name: str
    kind: SlotKind
    scheme: str | None = None
    location: str | None = None
    parameter: str | None = None
    token_url: str | None = None
    scopes: tuple[str, ...] | None = None
    description: str | None = None
    values: tuple[ValueLocation, ...] = ()
    fingerprint: str | None = None
    is_fallback: bool = False

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "CredentialSlot":
        """Return the slot of a provider's stored `slots`, of an export, or of a converted document."""
        scopes = form.get("scopes")
        return cls(
            name=str(form["slot"]),
            kind=form["kind"],
            scheme=form.get("scheme") or None,
            location=form.get("location") or None,
            parameter=form.get("name") or None,
            token_url=form.get("token_url") or None,
            scopes=None if scopes is None else tuple(scopes),
            description=form.get("description") or None,
            values=tuple(ValueLocation(one["location"], one["name"]) for one in form.get("values") or ()),
            fingerprint=form.get("inline"),
            is_fallback=bool(form.get("fallback")),
        )

    def to_json(self) -> Json:
        """Return the slot as a member of a provider's stored `slots`, without what is not set."""
        members = {
            "slot": self.name,
            "kind": self.kind,
            "scheme": self.scheme,
            "location": self.location,
            "name": self.parameter,
            "token_url": self.token_url,
            "scopes": None if self.scopes is None else list(self.scopes),
            "description": self.description,
            "values": [place.to_json() for place in self.values] or None,
            "inline": self.fingerprint,
            "fallback": self.is_fallback or None,
        }
        return {key: value for key, value in members.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SlotAssignment:
    """A credential that stood in a call template, the slot that it was given, and the origins of its tools.

    `is_shared`: it is that of `auth_tools`, the registrar's own, whether or not it stood at tools as well.
    """

    slot: str
    credential: CredentialDraft
    fingerprint: str
    origins: tuple[str, ...] = ()
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class VariableDraft:
    """The value of a variable before it is sealed; where it came with a registration, it becomes the
    provider's own.
    """

    value: str = field(repr=False)
    secret: bool = True


@dataclass(frozen=True, slots=True)
class MissingConsent:
    """What the source asks of a slot and its credential does not do until its owner says so.

    `origins` are those of tools that need the slot and do not get its credential; `token_url` is one of the
    source that is not used.
    """

    slot: str
    origins: tuple[str, ...] = ()
    token_url: str | None = None

    def to_json(self) -> Json:
        """Return `{"slot", "origins", "token_url"}`."""
        return {"slot": self.slot, "origins": list(self.origins), "token_url": self.token_url}


def security_json(needs: SecurityRequirements) -> list[list[Json]]:
    """Return the needs of a tool as its stored `security`; the inverse of `compile_security`."""
    return [
        [{"slot": need.slot, "scopes": list(need.scopes)} for need in alternative] for alternative in needs
    ]


def slot_names(needs: Iterable[Sequence[SlotRequirement]]) -> set[str]:
    """Return all slots that a tool's needs name."""
    return {need.slot for alternative in needs for need in alternative}

"""What is known of a provider before its source is read by a registration or a refresh."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from app.catalog.loader import VariableFinder
from app.providers.credentials.model import DEFAULT_SLOT, CredentialDraft, CredentialSlot
from app.providers.credentials.permissions import RegistrationPermissions
from app.providers.credentials.variable_scope import VariableScope, scope_of
from app.storage.models import Credential, Variable


@dataclass(frozen=True, slots=True)
class ImportContext:
    """Everything that reading a source may need.

    `variables` are those of the registration request and the stored ones; `credentials` are those of the
    request, by slot. `stored` are the stored credentials by slot, `slots` the slots of the stored source.
    """

    id: UUID
    name: str
    variables: Sequence[Variable]
    environment: Mapping[str, str]
    options: Mapping[str, Any]
    permissions: RegistrationPermissions
    option_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    limits: Mapping[str, Any] = field(default_factory=dict)
    credentials: Mapping[str, CredentialDraft] = field(default_factory=dict)
    stored: Mapping[str, Credential] = field(default_factory=dict)
    slots: Sequence[CredentialSlot] = ()
    at: str = ""

    @property
    def scope(self) -> VariableScope:
        """The variables that its templates may name."""
        return scope_of(self.name, self.variables, environment=self.environment, permissions=self.permissions)

    @property
    def finder(self) -> VariableFinder:
        """The variables that its sealed fields may name."""
        return VariableFinder(self.name, self.variables, self.environment)

    @property
    def known_slots(self) -> dict[str, str]:
        """The slots of credentials that an earlier manual contained, by fingerprint."""
        return {slot.fingerprint: slot.name for slot in self.slots if slot.fingerprint}

    @property
    def fallback_slot(self) -> str | None:
        """The slot of the tools without auth of their own: that of an earlier `auth_tools`, or `default`
        where its owner may store any credential there.
        """
        earlier = next((slot.name for slot in self.slots if slot.is_fallback), None)
        is_free = any(slot.name == DEFAULT_SLOT and not slot.fingerprint for slot in self.slots)
        return earlier or (DEFAULT_SLOT if is_free or DEFAULT_SLOT in self.credentials else None)

    @property
    def taken_slots(self) -> set[str]:
        """Names of slots that are in use."""
        return {*self.stored, *self.credentials, *(slot.name for slot in self.slots)}

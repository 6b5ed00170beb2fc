"""The provider that a registration or a refresh is about: what is known of it before anything is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from app.catalog.loader import VariableFinder
from app.credentials.model import DEFAULT_SLOT, GivenCredential, Json
from app.credentials.permissions import Reach
from app.credentials.variable_scope import VariableScope, scope_of
from app.models import Credential, Variable


@dataclass(frozen=True, slots=True)
class Subject:
    """Everything that reading a source may need. `variables` are those given along and those stored.

    `stored` are the credentials of an earlier registration, by slot; `slots` its slots.
    """

    id: UUID
    name: str
    variables: Sequence[Variable]
    environment: Mapping[str, str]
    options: Mapping[str, Any]
    reach: Reach
    option_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    limits: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, GivenCredential] = field(default_factory=dict)
    stored: Mapping[str, Credential] = field(default_factory=dict)
    slots: Sequence[Json] = ()
    at: str = ""

    @property
    def scope(self) -> VariableScope:
        """Which variables its texts mean."""
        return scope_of(self.name, self.variables, environment=self.environment, reach=self.reach)

    @property
    def finder(self) -> VariableFinder:
        """The same for sealed fields."""
        return VariableFinder(self.name, self.variables, self.environment)

    @property
    def known_slots(self) -> dict[str, str]:
        """Slots that an earlier manual's own credentials have, by fingerprint."""
        return {slot["inline"]: slot["slot"] for slot in self.slots if slot.get("inline")}

    @property
    def fallback_slot(self) -> str | None:
        """The slot of the tools without auth of their own: that of an earlier `auth_tools`, or `default`
        where its owner stores what he likes there.
        """
        kept = next((str(slot["slot"]) for slot in self.slots if slot.get("fallback")), None)
        bare = any(slot["slot"] == DEFAULT_SLOT and not slot.get("inline") for slot in self.slots)
        return kept or (DEFAULT_SLOT if bare or DEFAULT_SLOT in self.given else None)

    @property
    def taken_slots(self) -> set[str]:
        """Slot names that mean something already."""
        return {*self.stored, *self.given, *(slot["slot"] for slot in self.slots)}

    def with_option_secrets(self, secrets: Mapping[str, str]) -> "Subject":
        """The same with the secret part of its options."""
        return replace(self, option_secrets=secrets)

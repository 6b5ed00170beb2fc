"""What is stored of an enabled plugin: a hidden option of its provider, and a mark of its toolset."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.providers.registration.persist import PLUGIN_OPTION
from app.security.principal import Principal
from app.storage.models import TENANT, Provider, ToolsetRow
from app.toolsets.definition import StoredDefinition

DOCUMENT_GIVEN = "given"
"""The document of the plugin was given when it was enabled; otherwise it was fetched."""


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    """A plugin as it was enabled: its name, the version of the entry, the settings, the parts of connection
    strings that are no secrets by slot, and a keyed digest of the registration without credentials.
    """

    name: str
    version: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    connections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    document: str = ""
    definition: str = ""

    @classmethod
    def of(cls, provider: Provider) -> Self | None:
        """Return the plugin that made a provider; None for another provider."""
        stored = provider.options.get(PLUGIN_OPTION)
        return cls(**stored) if isinstance(stored, dict) else None

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return {
            "name": self.name,
            "version": self.version,
            "settings": dict(self.settings),
            "connections": {slot: dict(parts) for slot, parts in self.connections.items()},
            "document": self.document,
            "definition": self.definition,
        }


async def enabled_plugins(session: AsyncSession, *, principal: Principal) -> dict[str, EnabledPlugin]:
    """Return the plugins that are enabled, by name: those whose providers the principal may use."""
    query = select(Provider).where(
        col(Provider.tenant_id) == TENANT, col(Provider.options)[PLUGIN_OPTION]["name"].astext.is_not(None)
    )
    rows = (await session.execute(query)).scalars()
    found = (EnabledPlugin.of(row) for row in rows if principal.may_use(row.name, row.tags))
    return {one.name: one for one in found if one is not None}


def plugin_of_toolset(row: ToolsetRow) -> str:
    """Return the plugin that made a toolset, "" for none."""
    return StoredDefinition.model_validate(row.definition).plugin

"""Request and response models of `/plugins`."""

from datetime import date
from typing import Any, Literal, Self
from uuid import NAMESPACE_URL, uuid5

from pydantic import BaseModel, Field

from app.core.pagination import PageQuery
from app.core.schemas import PageModel
from app.providers.plugins.entry import PluginEntry
from app.providers.plugins.service import PluginState

PluginStateName = Literal["off", "enabled"]


class PluginSummary(BaseModel):
    """A plugin as an item of a list."""

    name: str = Field(examples=["github"])
    title: str
    description: str
    tags: list[str]
    state: PluginStateName = Field(description="`enabled`: there are a provider and a toolset of its name.")
    version: int = Field(description="The version of the entry in the catalogue.")
    enabled_version: int | None = Field(description="The version that is enabled; null where it is off.")
    is_outdated: bool = Field(description="Whether the catalogue has a newer version than is enabled.")
    is_allowed: bool = Field(
        description="Whether the operator has allowed what it needs of the gateway's own machine; true for "
        "plugins that need nothing of it."
    )
    tools: list[str] = Field(description="The names of its tools, as agents see them in its toolset.")

    @property
    def key(self) -> str:
        """A UUID of the name: the cursors of lists have one."""
        return str(uuid5(NAMESPACE_URL, self.name))

    @classmethod
    def of(cls, state: PluginState) -> Self:
        """Return the view of a plugin."""
        return cls(**_summary(state))


class PluginSource(BaseModel):
    """Where the tools of a plugin come from."""

    kind: Literal["document", "manual"] = Field(
        description="`document`: the vendor's OpenAPI document; `manual`: call templates of the gateway's."
    )
    url: str = Field(description="Where the document is fetched; of a manual, the page it is made from.")
    version: str | None = Field(description="The version of the document that the entry was made with.")
    license: str | None
    checked_on: date | None


class PluginSettingView(BaseModel):
    """A setting of a plugin."""

    name: str = Field(examples=["root"])
    title: str
    description: str
    type: Literal["string", "integer", "boolean", "url", "folder"]
    required: bool
    default: Any = None
    value: Any = Field(None, description="The value that it is enabled with; null where it is off.")


class PluginCredentialView(BaseModel):
    """A credential that a plugin takes; never its value."""

    slot: str = Field(examples=["token"])
    kind: str = Field(examples=["bearer"])
    title: str
    help: str = Field(description="Where it is created.")
    url: str
    environment: str = Field(description="The usual environment variable.", examples=["GITHUB_TOKEN"])
    required: bool
    scopes: list[str] = Field(description="What it must be allowed to do, in the vendor's words.")
    configured: bool = Field(description="Whether one is stored.")


class PluginView(PluginSummary):
    """A plugin with what it needs, and where to get it."""

    homepage: str
    source: PluginSource
    settings: list[PluginSettingView]
    credentials: list[PluginCredentialView]
    requires_setting: str | None = Field(
        description="The setting of the gateway with which its operator allows it.",
        examples=["FILESYSTEM_FOLDERS"],
    )
    provider: str | None = Field(description="The name of its provider; null where it is off.")
    toolset: str | None = Field(description="The name of its toolset; null where it is off.")
    missing_tools: list[str] = Field(
        description="Its tools that the document, as it is now, does not have; empty where it is off."
    )

    @classmethod
    def of(cls, state: PluginState) -> Self:
        """Return the view of a plugin with its details."""
        entry, enabled = state.entry, state.enabled
        values = {} if enabled is None else enabled.settings
        settings = [
            PluginSettingView(
                name=name,
                title=one.title,
                description=one.description,
                type=one.type,
                required=one.required,
                default=one.default,
                value=values.get(name),
            )
            for name, one in entry.settings.items()
        ]
        credentials = [
            PluginCredentialView(
                slot=slot,
                configured=slot in state.configured,
                **one.model_dump(include=set(PluginCredentialView.model_fields)),
            )
            for slot, one in entry.credentials.items()
        ]
        return cls(
            **_summary(state),
            homepage=entry.homepage,
            source=_source(entry),
            settings=settings,
            credentials=credentials,
            requires_setting=entry.requires_setting,
            provider=None if enabled is None else entry.name,
            toolset=None if enabled is None else entry.name,
            missing_tools=list(state.missing_tools),
        )


class PluginPage(PageModel[PluginSummary]):
    """A page of plugins."""


class PluginQuery(PageQuery):
    """Order and filter of the catalogue. `q`: each word is in name, title, description, a tag or a tool."""

    sort: Literal["name", "-name"] = Field("name", description="Order of the items; `-` for descending.")
    state: PluginStateName | None = Field(None, description="Only plugins in this state.")


def _summary(state: PluginState) -> dict[str, Any]:
    entry, enabled = state.entry, state.enabled
    return {
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "tags": entry.tags,
        "state": "off" if enabled is None else "enabled",
        "version": entry.version,
        "enabled_version": None if enabled is None else enabled.version,
        "is_outdated": state.is_outdated,
        "is_allowed": state.is_allowed,
        "tools": list(entry.tool_names),
    }


def _source(entry: PluginEntry) -> PluginSource:
    document, manual = entry.document, entry.manual
    if document is not None:
        return PluginSource(
            kind="document",
            url=document.url,
            version=document.version,
            license=document.license,
            checked_on=document.checked_on,
        )
    return PluginSource(
        kind="manual",
        url="" if manual is None else manual.reference,
        version=None,
        license=None,
        checked_on=None if manual is None else manual.checked_on,
    )

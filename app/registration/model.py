"""What a registration becomes before it is stored: tools, slots, credentials, report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.credentials.model import GivenCredential, InlineCredential, Json, Security
from app.protocols.registry import DEFAULT
from app.registration.request_model import PLAIN, DocumentOptions

ProviderKind = Literal["openapi", "manual", "custom"]


@dataclass(frozen=True, slots=True)
class ToolDraft:
    """A tool to be stored. `name` is the local part, `origin` where its calls go."""

    source_key: str
    name: str
    description: str
    inputs: Json
    outputs: Json
    tags: tuple[str, ...]
    call_template: Json
    security: Security
    origin: str
    deprecated: bool = False
    average_response_size: int | None = None
    shown: Json | None = None
    by_hand: bool = False
    """Whether it belongs to no source, so that a refresh leaves it alone."""
    wanted: str | None = None
    """The local name that its source has for it; None where the report of a converter knows better."""

    def columns(self) -> Json:
        """What a re-import compares and replaces."""
        return {
            "description": self.description,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "tags": list(self.tags),
            "call_template": self.call_template,
            "security": self.security,
            "deprecated": self.deprecated,
            "average_response_size": self.average_response_size,
            "shown": self.shown,
        }


@dataclass(frozen=True, slots=True)
class StoredSource:
    """What is kept for a refresh. `sealed` says that `body` may hold secrets and must be sealed."""

    format: str
    body: bytes = field(repr=False)
    media_type: str = ""
    url: str | None = None
    sealed: bool = False
    how: DocumentOptions = PLAIN


@dataclass(frozen=True, slots=True)
class ToolSet:
    """What a document, a manual or a template was read into."""

    kind: ProviderKind
    tools: tuple[ToolDraft, ...]
    report: Json
    source: StoredSource
    title: str = ""
    description: str = ""
    slots: tuple[Json, ...] = ()
    inline: tuple[InlineCredential, ...] = ()
    protocol: str = DEFAULT
    """That the provider was registered with; a tool's own stands in its template."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything that one registration stores, in one transaction."""

    tool_set: ToolSet
    call_template: Json
    named_origins: tuple[str, ...]
    """Origins that the registrar named: a credential goes to these unless its owner says otherwise."""
    credentials: Mapping[str, GivenCredential]
    """Complete, with allowed_origins; by slot."""
    needs_consent: tuple[Json, ...] = ()

    @property
    def origins(self) -> tuple[str, ...]:
        """The distinct origins of the tools, in order of first use."""
        return tuple(dict.fromkeys(tool.origin for tool in self.tool_set.tools if tool.origin))

"""The four shapes of a registration, one after the other:

RegistrationRequest  what a client asks for, before anything is fetched or converted
ParsedSource         the tools, slots and inline credentials that were read from its source
RegistrationPlan     that, with every credential completed: what is to be stored
RegistrationResult   what was stored, or would be, and how it differs from what was there before
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from app.credentials.model import (
    CredentialDraft,
    CredentialSlot,
    Json,
    MissingConsent,
    SecurityRequirements,
    SlotAssignment,
    VariableDraft,
    security_json,
)
from app.errors import GatewayError
from app.models import Credential, Provider, Revision
from app.openapi.difference import ToolDifference
from app.protocols.registry import DEFAULT
from app.registration.report import SourceReport

SourceKind = Literal["document", "manual", "template", "tools"]
SourceFormat = Literal["openapi", "manual", "export"]
ProviderKind = Literal["openapi", "manual", "custom"]

BREAKING: Final = "breaking"
COMPATIBLE: Final = "compatible"


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """How an OpenAPI document is read: `root` and `overlay` as in `ConvertOptions`.

    `follow_references`: the files that a document at a URL refers to are fetched, too, if they lie at its
    origin.
    """

    root: str | None = None
    overlay: str | None = None
    follow_references: bool = False


PLAIN: Final = DocumentOptions()


@dataclass(frozen=True, slots=True)
class RegistrationSource:
    """Where the tools come from.

    document: the unparsed `body`, OpenAPI or a manual. manual: a parsed manual in `value`. template: a UTCP
    call template or provider in `value`, whose upstream is discovered. tools: those of an export in `value`.
    `at` is the JSON pointer of the source in the request, `url` where a document came from.
    """

    kind: SourceKind
    body: bytes = field(default=b"", repr=False)
    media_type: str = ""
    value: Any = field(default=None, repr=False)
    at: str = ""
    url: str | None = None
    options: DocumentOptions = PLAIN


@dataclass(frozen=True, slots=True)
class RegistrationRequest:
    """One provider to be registered.

    `overrides` are what people changed on its tools, by source key: description, tags, enabled.
    `unconfirmed_origins` are those that only keys without `credentials:write` brought, where it was exported.
    `at` is the JSON pointer of this registration in the request.
    """

    name: str
    source: RegistrationSource
    title: str = ""
    description: str | None = None
    tags: tuple[str, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    option_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Mapping[str, CredentialDraft] = field(default_factory=dict)
    variables: Mapping[str, VariableDraft] = field(default_factory=dict)
    enabled: bool = True
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unconfirmed_origins: tuple[str, ...] = ()
    at: str = ""


@dataclass(frozen=True, slots=True)
class RejectedEntry:
    """An entry of a list that could not be read; `name` is what it seems to be called."""

    name: str | None
    error: GatewayError


@dataclass(frozen=True, slots=True)
class RegistrationBatch:
    """What one HTTP request asks for. `is_list` is true for a list, even for one with a single entry."""

    entries: tuple[RegistrationRequest | RejectedEntry, ...]
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class ToolDraft:
    """A tool to be stored.

    `name` is its local name, `source_name` the one that its source has for it, None where the report of a
    converter knows better. `origin` is where its calls go, "" where variables decide. `shown` is what a model
    sees in place of a large tool. `is_custom`: it belongs to no source, so that a refresh leaves it alone.
    """

    source_key: str
    name: str
    description: str
    inputs: Json
    outputs: Json
    tags: tuple[str, ...]
    call_template: Json
    security: SecurityRequirements
    origin: str
    deprecated: bool = False
    average_response_size: int | None = None
    shown: Json | None = None
    is_custom: bool = False
    source_name: str | None = None

    def columns(self) -> Json:
        """Return the columns that a re-import compares and replaces, by name."""
        return {
            "description": self.description,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "tags": list(self.tags),
            "call_template": self.call_template,
            "security": security_json(self.security),
            "deprecated": self.deprecated,
            "average_response_size": self.average_response_size,
            "shown": self.shown,
        }


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """What a document, a manual, a template or an export was read into.

    `source` is what is stored for a refresh: bytes of the given `format`. `protocol` is the one that the
    provider was registered with; that of a tool stands in its template. `call_template` is that with which
    the source is fetched, `discovery` the credentials for that, by slot. `named_origins` are those that the
    registrar named: a credential goes there unless its owner says otherwise. `is_fetched`: the text is that
    of an upstream, not the registrar's.
    """

    kind: ProviderKind
    format: SourceFormat
    source: RegistrationSource
    tools: tuple[ToolDraft, ...]
    report: SourceReport
    title: str = ""
    description: str = ""
    slots: tuple[CredentialSlot, ...] = ()
    inline: tuple[SlotAssignment, ...] = ()
    protocol: str = DEFAULT
    call_template: Json = field(default_factory=dict)
    discovery: Mapping[str, CredentialDraft] = field(default_factory=dict)
    named_origins: tuple[str, ...] = ()
    is_fetched: bool = False

    def named_report(
        self, names: Mapping[str, str], *, provider: str, rejected: Collection[str] = ()
    ) -> SourceReport:
        """Return the report with the canonical name of each tool, and whether that is the source's own.

        `names` are the canonical ones by source key; `rejected` are the keys of tools that the database does
        not take.
        """
        tools = {tool.source_key: tool for tool in self.tools}
        report = self.report.with_skipped(
            dict.fromkeys(rejected, "It holds a value that the database cannot store.")
        )
        operations = []
        for one in report.operations:
            tool = tools.get(one.source_key)
            if one.verdict == "skipped" or tool is None:
                operations.append(one)
                continue
            name = names.get(one.source_key, one.name)
            is_same = name.removeprefix(f"{provider}.") == (tool.source_name or tool.name)
            # A converter has renamed for reasons of its own, whatever the name is now.
            is_known = tool.source_name is not None or one.verdict == "accepted"
            verdict = replace(
                one,
                name=name,
                verdict="accepted" if is_same and is_known else "renamed",
                security=tuple(tuple(need.slot for need in needs) for needs in tool.security),
            )
            operations.append(verdict)
        return replace(report, operations=tuple(operations))


@dataclass(frozen=True, slots=True)
class RegistrationPlan:
    """Everything that one registration stores, in one transaction.

    `credentials` are complete, with `allowed_origins`, by slot.
    """

    parsed: ParsedSource
    credentials: Mapping[str, CredentialDraft]
    needs_consent: tuple[MissingConsent, ...] = ()

    @property
    def origins(self) -> tuple[str, ...]:
        """The distinct origins of the tools, in order of first use."""
        return tuple(dict.fromkeys(tool.origin for tool in self.parsed.tools if tool.origin))


@dataclass(frozen=True, slots=True)
class ToolChange:
    """What a re-import does with one tool that is not the same: `change` is added, changed or removed.

    `held`: it waits for a person's approval.
    """

    source_key: str
    change: Literal["added", "changed", "removed"]
    is_breaking: bool
    held: bool
    differences: tuple[ToolDifference, ...] = ()

    def to_json(self) -> Json:
        """Return the change as it is stored and shown."""
        return {
            "source_key": self.source_key,
            "change": self.change,
            "verdict": BREAKING if self.is_breaking else COMPATIBLE,
            "held": self.held,
            "differences": [difference.as_json() for difference in self.differences],
        }


@dataclass(frozen=True, slots=True)
class SourceDiff:
    """What a re-import does: source keys by what becomes of their tools, and a `ToolChange` for each that is
    not the same.

    `held_slots` mean something else in the new source, and keep their old meaning until that is approved.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    changes: tuple[ToolChange, ...] = ()
    held_slots: frozenset[str] = frozenset()

    @property
    def verdict(self) -> str:
        """`breaking` if any change is, else `compatible`."""
        return BREAKING if any(one.is_breaking for one in self.changes) else COMPATIBLE

    def keys(self) -> dict[str, list[str]]:
        """Return the source keys by what becomes of their tools."""
        names = ("added", "changed", "unchanged", "removed", "held")
        return {name: list(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True)
class RegistrationResult:
    """What was stored, or by a preview would be.

    `names` are the canonical names of the tools by source key, `tool_count` the number of all tools of the
    provider, `credentials` the rows that are stored for it, `pending` what waits for approval.
    `provider_exists` says of a preview whether there is a provider of that name.
    """

    provider: Provider
    plan: RegistrationPlan
    report: SourceReport
    diff: SourceDiff
    names: Mapping[str, str]
    tool_count: int
    credentials: tuple[Credential, ...] = ()
    pending: Revision | None = None
    provider_exists: bool = False

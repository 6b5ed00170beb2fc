"""The four shapes of a registration, one after the other:

RegistrationRequest  the validated request, before anything is fetched or converted
ParsedSource         the tools, slots and inline credentials that were read from its source
RegistrationPlan     that, with every credential completed: what is to be stored
RegistrationResult   what was stored, or would be, and how it differs from what was there before
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal

from app.core.errors import GatewayError, UnsetVariable
from app.formats.json_schema.compare import Effect
from app.openapi.assessment.slim import SlimmedTool
from app.openapi.report import SourceReport
from app.protocols.registry import DEFAULT
from app.providers.credentials.model import (
    CredentialDraft,
    CredentialSlot,
    Json,
    MissingConsent,
    SecurityRequirements,
    SlotAssignment,
    VariableDraft,
    compile_security,
    security_json,
)
from app.storage.models import Credential, Provider, Revision, Tool

SourceKind = Literal["document", "manual", "template", "tools"]
SourceFormat = Literal["openapi", "manual", "export", "toolclad"]
ProviderKind = Literal["openapi", "manual", "custom"]
Aspect = Literal["input", "output", "auth", "server", "placing", "description"]

BREAKING: Final = "breaking"
COMPATIBLE: Final = "compatible"


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """How an OpenAPI document is read: `root` and `overlay` as in `ConvertOptions`.

    `follow_references`: the files that a document at a URL refers to are fetched, too, if they lie at its
    origin. None where nobody says whether: they are, unless a credential is sent with the requests, since who
    writes the document chooses the paths.
    """

    root: str | None = None
    overlay: str | None = None
    follow_references: bool | None = False


PLAIN: Final = DocumentOptions()
FETCHED: Final = DocumentOptions(follow_references=None)


@dataclass(frozen=True, slots=True)
class RegistrationSource:
    """Where the tools come from.

    document: the unparsed `body`, OpenAPI or a manual. manual: a parsed manual in `value`. template: a UTCP
    call template or provider in `value`, whose upstream is discovered. tools: those of an export in `value`.
    `at` is the JSON pointer of the source in the request, `url` where a document came from, and `final_url`
    where that redirected to. `moved`: the
    beginning of pointers into `value`, and what stands in the request in its place. `protocol` is that of a
    provider without a template of its own.
    """

    kind: SourceKind
    body: bytes = field(default=b"", repr=False)
    media_type: str = ""
    value: Any = field(default=None, repr=False)
    at: str = ""
    url: str | None = None
    options: DocumentOptions = PLAIN
    moved: tuple[str, str] = ("", "")
    protocol: str = DEFAULT
    final_url: str | None = None

    @property
    def document_url(self) -> str | None:
        """The URL of the document itself, to which its references are relative."""
        return self.final_url or self.url

    def translate_pointer(self, pointer: str) -> str:
        """Return the JSON pointer in the request for one into `value` below `at`."""
        before, after = (self.at + one for one in self.moved)
        is_below = pointer == before or pointer.startswith(f"{before}/")
        return after + pointer.removeprefix(before) if is_below else pointer


@dataclass(frozen=True, slots=True)
class RegistrationRequest:
    """One provider to be registered.

    `overrides` are what people changed on its tools, by source key: description, tags, enabled.
    `unconfirmed_origins` are those that only keys without `credentials:write` brought, where it was exported.
    `language` is the language tag that the registrar gives to the texts of its tools; `document_language` the
    one that a source had where it was exported, for a source that says none.
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
    language: str | None = None
    document_language: str | None = None
    at: str = ""


@dataclass(frozen=True, slots=True)
class RejectedEntry:
    """An entry of a list that is not valid; `name` is its member of that name, if that is text."""

    name: str | None
    error: GatewayError


@dataclass(frozen=True, slots=True)
class RegistrationBatch:
    """The registrations of one HTTP request. `is_list` is also true for a list of one entry."""

    entries: tuple[RegistrationRequest | RejectedEntry, ...]
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """What a source says of a tool: the columns of `tools` that an import compares and replaces.

    `slimmed` is what a model sees in place of a large tool. `average_response_size` is in tokens.
    """

    description: str
    inputs: Json
    outputs: Json
    tags: tuple[str, ...]
    call_template: Json
    security: SecurityRequirements
    deprecated: bool
    average_response_size: int | None
    slimmed: SlimmedTool | None
    keywords: tuple[str, ...]

    @classmethod
    def from_row(cls, tool: Tool) -> "ToolDefinition":
        """Return the definition of a stored tool."""
        return cls(
            description=tool.description,
            inputs=tool.inputs,
            outputs=tool.outputs,
            tags=tuple(tool.tags),
            call_template=tool.call_template,
            security=compile_security(tool.security),
            deprecated=tool.deprecated,
            average_response_size=tool.average_response_size,
            slimmed=None if tool.slimmed is None else SlimmedTool.from_json(tool.slimmed),
            keywords=tuple(tool.keywords),
        )

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "ToolDefinition":
        """Return the definition that `columns` wrote."""
        slimmed = form["slimmed"]
        return cls(
            description=form["description"],
            inputs=form["inputs"],
            outputs=form["outputs"],
            tags=tuple(form["tags"]),
            call_template=form["call_template"],
            security=compile_security(form["security"]),
            deprecated=form["deprecated"],
            average_response_size=form["average_response_size"],
            slimmed=None if slimmed is None else SlimmedTool.from_json(slimmed),
            # A pending revision of the release before has none.
            keywords=tuple(form.get("keywords", ())),
        )

    def columns(self) -> Json:
        """Return the columns of `tools`, by name."""
        return {
            "description": self.description,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "tags": list(self.tags),
            "call_template": self.call_template,
            "security": security_json(self.security),
            "deprecated": self.deprecated,
            "average_response_size": self.average_response_size,
            "slimmed": None if self.slimmed is None else self.slimmed.to_json(),
            "keywords": list(self.keywords),
        }


@dataclass(frozen=True, slots=True)
class ToolDraft:
    """A tool to be stored.

    `name` is its local name, `source_name` the one that its source has for it, None where the report of a
    converter knows better. `origin` is where its calls go, "" where variables decide. `slimmed` is what
    a model sees in place of a large tool. `is_custom`: it belongs to no source, so a refresh leaves it alone.
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
    slimmed: SlimmedTool | None = None
    keywords: tuple[str, ...] = ()
    is_custom: bool = False
    source_name: str | None = None

    @property
    def definition(self) -> ToolDefinition:
        """What is stored of it, apart from its names and origin."""
        return ToolDefinition(
            description=self.description,
            inputs=self.inputs,
            outputs=self.outputs,
            tags=self.tags,
            call_template=self.call_template,
            security=self.security,
            deprecated=self.deprecated,
            average_response_size=self.average_response_size,
            slimmed=self.slimmed,
            keywords=self.keywords,
        )

    def to_json(self) -> Json:
        """Return the tool of a source as it is stored in a pending revision."""
        names = {"source_key": self.source_key, "name": self.name, "origin": self.origin}
        return {**self.definition.columns(), **names}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "ToolDraft":
        """Return the tool that `to_json` wrote."""
        definition = ToolDefinition.from_json(form)
        return cls(
            source_key=form["source_key"],
            name=form["name"],
            origin=form["origin"],
            **{one.name: getattr(definition, one.name) for one in fields(definition)},
        )


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """The tools, slots and inline credentials of a document, a manual, a template or an export.

    `source` is what is stored for a refresh: bytes of the given `format`. `protocol` is the one that the
    provider was registered with; that of a tool stands in its template. `call_template` is that with which
    the source is fetched, `discovery` the credentials for that, by slot. `named_origins` are those that the
    registrar named: a credential goes there unless its owner says otherwise. `is_fetched`: the text is that
    of an upstream, not the registrar's. `unread_parts` are JSON pointers into the template, of those of its
    servers that could not be read. `language` is the language tag (BCP 47) of its texts, where it says one.
    """

    kind: ProviderKind
    format: SourceFormat
    source: RegistrationSource
    tools: tuple[ToolDraft, ...]
    report: SourceReport
    title: str = ""
    description: str = ""
    language: str | None = None
    slots: tuple[CredentialSlot, ...] = ()
    inline: tuple[SlotAssignment, ...] = ()
    protocol: str = DEFAULT
    call_template: Json = field(default_factory=dict)
    discovery: Mapping[str, CredentialDraft] = field(default_factory=dict)
    named_origins: tuple[str, ...] = ()
    is_fetched: bool = False
    unread_parts: tuple[str, ...] = ()
    unset_variables: Mapping[str, UnsetVariable] = field(default_factory=dict)
    """The errors of tools that were skipped because variables have no value, by the tool's key."""

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
        for operation in report.operations:
            tool = tools.get(operation.source_key)
            if operation.outcome == "skipped" or tool is None:
                operations.append(operation)
                continue
            name = names.get(operation.source_key, operation.name)
            is_same = name.removeprefix(f"{provider}.") == (tool.source_name or tool.name)
            # A converter has renamed for reasons of its own, whatever the name is now.
            is_known = tool.source_name is not None or operation.outcome == "accepted"
            outcome = replace(
                operation,
                name=name,
                outcome="accepted" if is_same and is_known else "renamed",
                security=tuple(tuple(need.slot for need in needs) for needs in tool.security),
            )
            operations.append(outcome)
        return replace(report, operations=tuple(operations))


@dataclass(frozen=True, slots=True)
class RegistrationPlan:
    """What one registration stores, in one transaction.

    `credentials` are complete, with `allowed_origins`, by slot. With `trusted`, tools of other source keys
    are added and changed only after approval.
    """

    parsed: ParsedSource
    credentials: Mapping[str, CredentialDraft]
    needs_consent: tuple[MissingConsent, ...] = ()
    trusted: frozenset[str] | None = None

    @property
    def origins(self) -> tuple[str, ...]:
        """The distinct origins of the tools, in order of first use."""
        return tuple(dict.fromkeys(tool.origin for tool in self.parsed.tools if tool.origin))


@dataclass(frozen=True, slots=True)
class ToolDifference:
    """One difference: its aspect, effect, pointer (RFC 6901, into that aspect), and a sentence about it."""

    aspect: Aspect
    effect: Effect
    breaking: bool
    detail: str
    pointer: str = ""

    def to_json(self) -> Json:
        """Return the difference as JSON for a response."""
        return {
            "aspect": self.aspect,
            "effect": self.effect,
            "breaking": self.breaking,
            "pointer": self.pointer,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class ToolChange:
    """What a re-import does with one tool that is not the same: `change` is added, changed or removed.

    `pending_approval`: it is not applied before a person has approved it.
    """

    source_key: str
    change: Literal["added", "changed", "removed"]
    is_breaking: bool
    pending_approval: bool
    differences: tuple[ToolDifference, ...] = ()

    def to_json(self) -> Json:
        """Return the change as it is stored and sent in responses."""
        return {
            "source_key": self.source_key,
            "change": self.change,
            "compatibility": BREAKING if self.is_breaking else COMPATIBLE,
            "pending_approval": self.pending_approval,
            "differences": [difference.to_json() for difference in self.differences],
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "ToolChange":
        """Return the change that `to_json` wrote."""
        return cls(
            source_key=form["source_key"],
            change=form["change"],
            is_breaking=form["compatibility"] == BREAKING,
            pending_approval=form["pending_approval"],
            differences=tuple(ToolDifference(**one) for one in form["differences"]),
        )


@dataclass(frozen=True, slots=True)
class PendingDefinitions:
    """The tools and slots that a provider gets once a pending revision is approved."""

    tools: tuple[ToolDraft, ...]
    slots: tuple[CredentialSlot, ...]

    def to_json(self) -> Json:
        """Return the definitions as they are stored in the revision."""
        return {
            "tools": [tool.to_json() for tool in self.tools],
            "slots": [slot.to_json() for slot in self.slots],
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "PendingDefinitions":
        """Return the definitions that `to_json` wrote."""
        return cls(
            tools=tuple(ToolDraft.from_json(tool) for tool in form["tools"]),
            slots=tuple(CredentialSlot.from_json(slot) for slot in form["slots"]),
        )


@dataclass(frozen=True, slots=True)
class SourceDiff:
    """What a re-import does: source keys by what becomes of their tools, and a `ToolChange` for each that is
    not the same.

    `changed_slots` differ in the new source, and keep their old definition until the new one is approved.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    pending_approval: tuple[str, ...] = ()
    changes: tuple[ToolChange, ...] = ()
    changed_slots: frozenset[str] = frozenset()

    @property
    def compatibility(self) -> str:
        """`breaking` if any change is, else `compatible`."""
        return BREAKING if any(one.is_breaking for one in self.changes) else COMPATIBLE

    def keys(self) -> dict[str, list[str]]:
        """Return the source keys by what becomes of their tools."""
        names = ("added", "changed", "unchanged", "removed", "pending_approval")
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

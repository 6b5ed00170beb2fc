"""The report of an import: the outcome of each operation or tool of a source, and warnings about the rest.

Converted OpenAPI documents, manuals, custom tools and exports have the same report.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from app.openapi.assessment.assess import Assessment
from app.openapi.assessment.lint import LintFinding
from app.openapi.conversion.declared_servers import DeclaredServer
from app.openapi.model import Json

Outcome = Literal["accepted", "renamed", "skipped"]
_MAX_WARNINGS = 1_000
_MAX_UNREAD = 200
_MAX_FIELD_NAME = 100
_PARTS = ("/paths/", "/components/", "/servers/")


class OperationProblem(Exception):
    """An operation cannot become a tool. `reason` is the predicate of a sentence about it, `pointer` (RFC
    6901) tells where.
    """

    def __init__(self, reason: str, *, pointer: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class SourceWarning:
    """A warning that belongs to no single tool; `pointer` (RFC 6901) leads to a part of the source."""

    detail: str
    pointer: str = ""

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "SourceWarning":
        """Return the warning that `to_json` wrote."""
        return cls(form["detail"], form["pointer"])

    def to_json(self) -> Json:
        """Return `{"pointer", "detail"}`."""
        return {"pointer": self.pointer, "detail": self.detail}


@dataclass(slots=True)
class Warnings:
    """Collects warnings about parts of a document that several operations may share, each stored once."""

    _seen: dict[tuple[str, str], None] = field(default_factory=dict)
    _omitted: int = 0

    def add(self, pointer: str, detail: str) -> None:
        """Add a warning; warnings after the thousandth are only counted."""
        if (pointer, detail) in self._seen:
            return
        if len(self._seen) >= _MAX_WARNINGS:
            self._omitted += 1
            return
        self._seen[pointer, detail] = None

    def list_collected(self) -> tuple[SourceWarning, ...]:
        """Return the warnings in the order in which they were added."""
        warnings = [SourceWarning(detail, pointer) for pointer, detail in self._seen]
        if self._omitted:
            warnings.append(SourceWarning(f"{self._omitted} further warnings are left out"))
        return tuple(warnings)


@dataclass(frozen=True, slots=True)
class UnreadField:
    """A field of an OpenAPI object that has no effect on the tools: `count` times, first at `pointer`."""

    object: str
    field: str
    count: int
    pointer: str
    reason: str

    def to_json(self) -> Json:
        """Return `{"object", "field", "count", "pointer", "reason"}`."""
        return {
            "object": self.object,
            "field": self.field,
            "count": self.count,
            "pointer": self.pointer,
            "reason": self.reason,
        }


@dataclass(slots=True)
class UnreadFields:
    """Counts the fields of a document that have no effect on its tools, by object and name."""

    _found: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    _counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, object_name: str, name: str, pointer: str, reason: str) -> None:
        """Count a field; field names after the two hundredth are left out."""
        key = object_name, name[:_MAX_FIELD_NAME]
        if key not in self._found:
            if len(self._found) >= _MAX_UNREAD:
                return
            self._found[key] = pointer, reason
        self._counts[key] = self._counts.get(key, 0) + 1

    def list_collected(self) -> tuple[UnreadField, ...]:
        """Return the fields by object and name."""
        return tuple(UnreadField(*key, self._counts[key], *self._found[key]) for key in sorted(self._found))


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """The outcome of one operation or tool of a source.

    `name` is its local name and, once stored, its canonical one; "" where it was skipped for a `reason`.
    `security` has the slots of each alternative. `tokens` estimates what the tool costs a model,
    `slimming_steps` says how it was slimmed, and `lint` what makes it harder to use; these three are None
    where it was not assessed.
    """

    source_key: str
    name: str
    outcome: Outcome
    pointer: str = ""
    reason: str | None = None
    notes: tuple[str, ...] = ()
    security: tuple[tuple[str, ...], ...] | None = None
    tokens: int | None = None
    slimming_steps: tuple[str, ...] | None = None
    lint: tuple[LintFinding, ...] | None = None

    @classmethod
    def of(
        cls,
        source_key: str,
        name: str = "",
        *,
        pointer: str,
        reason: str | None = None,
        notes: Sequence[str] = (),
    ) -> "OperationOutcome":
        """Return the outcome of a tool: skipped for a reason, else accepted, as renamed where its name is not
        its key.
        """
        outcome: Outcome = "accepted" if name == source_key else "renamed"
        return cls(
            source_key, name, "skipped" if reason is not None else outcome, pointer, reason, tuple(notes)
        )

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "OperationOutcome":
        """Return the outcome that `to_json` wrote."""
        lint, steps, security = form.get("lint"), form.get("slimmed"), form.get("security")
        return cls(
            source_key=form["source_key"],
            name=form["name"],
            outcome=form["outcome"],
            pointer=form["pointer"],
            reason=form.get("reason"),
            notes=tuple(form["notes"]),
            security=None if security is None else tuple(tuple(slots) for slots in security),
            tokens=form.get("tokens"),
            slimming_steps=None if steps is None else tuple(steps),
            lint=None if lint is None else tuple(LintFinding(**one) for one in lint),
        )

    def to_json(self) -> Json:
        """Return the outcome as a member of the report's `operations`, without the members that are None."""
        members = {
            "source_key": self.source_key,
            "name": self.name,
            "outcome": self.outcome,
            "pointer": self.pointer,
            "notes": list(self.notes),
            "reason": self.reason,
            "security": None if self.security is None else [list(slots) for slots in self.security],
            "tokens": self.tokens,
            "slimmed": None if self.slimming_steps is None else list(self.slimming_steps),
            "lint": None if self.lint is None else [finding.to_json() for finding in self.lint],
        }
        return {key: value for key, value in members.items() if value is not None}

    def add_assessment(self, assessment: Assessment) -> "OperationOutcome":
        """Return the outcome with the assessment of its tool."""
        # Not `replace`, which takes several times as long.
        return OperationOutcome(
            self.source_key,
            self.name,
            self.outcome,
            self.pointer,
            self.reason,
            self.notes,
            self.security,
            assessment.tokens,
            assessment.slimmed.steps if assessment.slimmed else (),
            assessment.findings,
        )

    def mark_skipped(self, reason: str) -> "OperationOutcome":
        """Return the outcome of a tool that is not stored after all."""
        return replace(self, name="", outcome="skipped", reason=reason)


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """Numbers of operations by outcome; a renamed one also counts as accepted."""

    operations: int
    accepted: int
    renamed: int
    skipped: int

    def to_json(self) -> Json:
        """Return `{"operations", "accepted", "renamed", "skipped"}`."""
        return {
            "operations": self.operations,
            "accepted": self.accepted,
            "renamed": self.renamed,
            "skipped": self.skipped,
        }


@dataclass(frozen=True, slots=True)
class SourceReport:
    """All outcomes and warnings; `tokens` is an estimate of what the tools cost a model together.

    `unread` are the fields of an OpenAPI document that have no effect on its tools.
    `servers` are those of an OpenAPI document, where there is something to choose among them.
    `final_url` is where the URL of the source redirected to, without its query; None where it did not.
    """

    operations: tuple[OperationOutcome, ...] = ()
    warnings: tuple[SourceWarning, ...] = ()
    tokens: int | None = None
    unread: tuple[UnreadField, ...] = ()
    servers: tuple[DeclaredServer, ...] = ()
    final_url: str | None = None

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "SourceReport":
        """Return the report that `to_json` wrote."""
        return cls(
            operations=tuple(OperationOutcome.from_json(one) for one in form["operations"]),
            warnings=tuple(SourceWarning.from_json(one) for one in form["warnings"]),
            tokens=form.get("tokens"),
            unread=tuple(UnreadField(**one) for one in form.get("unread", ())),
            servers=tuple(DeclaredServer.from_json(one) for one in form.get("servers", ())),
            final_url=form.get("final_url"),
        )

    @property
    def counts(self) -> OutcomeCounts:
        """The numbers of operations by outcome."""
        outcomes = [one.outcome for one in self.operations]
        skipped = outcomes.count("skipped")
        return OutcomeCounts(len(outcomes), len(outcomes) - skipped, outcomes.count("renamed"), skipped)

    def to_json(self) -> Json:
        """Return the report as it is stored and sent in responses."""
        form: Json = {
            "counts": self.counts.to_json(),
            "operations": [one.to_json() for one in self.operations],
            "warnings": [one.to_json() for one in self.warnings],
        }
        if self.tokens is not None:
            form["tokens"] = self.tokens
        if self.unread:
            form["unread"] = [one.to_json() for one in self.unread]
        if self.servers:
            form["servers"] = [one.to_json() for one in self.servers]
        if self.final_url is not None:
            form["final_url"] = self.final_url
        return form

    def with_pointers(self, source_pointer: Callable[[str], str]) -> "SourceReport":
        """Return the report on a translated document with pointers into its source.

        Warnings about the source itself already have such pointers: none of these begins like a part of
        OpenAPI. Unread fields are left out, because they belong to the translation, which nobody sees.
        """
        operations = tuple(replace(one, pointer=source_pointer(one.pointer)) for one in self.operations)
        warnings = tuple(
            replace(one, pointer=source_pointer(one.pointer)) if one.pointer.startswith(_PARTS) else one
            for one in self.warnings
        )
        return replace(self, operations=operations, warnings=warnings, unread=())

    def with_warnings(self, *warnings: SourceWarning) -> "SourceReport":
        """Return the report with further warnings."""
        return replace(self, warnings=(*self.warnings, *warnings))

    def with_skipped(self, reasons: Mapping[str, str]) -> "SourceReport":
        """Return the report with some tools marked as skipped, for these reasons by source key."""
        operations = (
            one.mark_skipped(reasons[one.source_key])
            if one.source_key in reasons and one.outcome != "skipped"
            else one
            for one in self.operations
        )
        return replace(self, operations=tuple(operations))

    def with_notes(self, notes: Mapping[str, str]) -> "SourceReport":
        """Return the report with a further note on some tools, by source key."""
        operations = (
            replace(one, notes=(*one.notes, notes[one.source_key])) if one.source_key in notes else one
            for one in self.operations
        )
        return replace(self, operations=tuple(operations))

    def with_assessments(self, assessments: Mapping[str, Assessment]) -> "SourceReport":
        """Return the report with the assessment of each tool, by source key, added to its outcome."""
        operations = (
            one
            if one.outcome == "skipped" or (assessment := assessments.get(one.source_key)) is None
            else one.add_assessment(assessment)
            for one in self.operations
        )
        tokens = sum(one.tokens for one in assessments.values())
        return replace(self, operations=tuple(operations), tokens=tokens)

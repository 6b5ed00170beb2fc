"""The report of an import: what became of each tool of the source, and remarks on the rest of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.credentials.model import Json
from app.openapi.judge import Judgement
from app.openapi.lint import LintFinding

Outcome = Literal["accepted", "renamed", "skipped"]


@dataclass(frozen=True, slots=True)
class SourceWarning:
    """A remark that belongs to no single tool; `pointer` (RFC 6901) is that of a part of the source."""

    detail: str
    pointer: str = ""

    def to_json(self) -> Json:
        """Return `{"pointer", "detail"}`."""
        return {"pointer": self.pointer, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class ToolVerdict:
    """What became of one tool of the source.

    `name` is its local name and, once stored, its canonical one; "" where it was skipped for a `reason`.
    `security` are the slots of each alternative. `tokens` is about what it costs a model, `slimmed` how it
    was shortened for that, `lint` what makes it harder to use; None where it was not judged.
    """

    source_key: str
    name: str
    verdict: Outcome
    pointer: str = ""
    reason: str | None = None
    notes: tuple[str, ...] = ()
    security: tuple[tuple[str, ...], ...] | None = None
    tokens: int | None = None
    slimmed: tuple[str, ...] | None = None
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
    ) -> "ToolVerdict":
        """Return the verdict on a tool: skipped for a reason, else accepted, as renamed where its name is not
        its key.
        """
        verdict: Outcome = "accepted" if name == source_key else "renamed"
        return cls(
            source_key, name, "skipped" if reason is not None else verdict, pointer, reason, tuple(notes)
        )

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "ToolVerdict":
        """Return a member of the `operations` of a converter's report."""
        lint, slimmed = form.get("lint"), form.get("slimmed")
        return cls(
            source_key=form["source_key"],
            name=form["name"],
            verdict=form["verdict"],
            pointer=form["pointer"],
            reason=form.get("reason"),
            notes=tuple(form["notes"]),
            tokens=form.get("tokens"),
            slimmed=None if slimmed is None else tuple(slimmed),
            lint=None if lint is None else tuple(LintFinding(**one) for one in lint),
        )

    def to_json(self) -> Json:
        """Return the verdict as a member of the report's `operations`, without what is not set."""
        members = {
            "source_key": self.source_key,
            "name": self.name,
            "verdict": self.verdict,
            "pointer": self.pointer,
            "notes": list(self.notes),
            "reason": self.reason,
            "security": None if self.security is None else [list(slots) for slots in self.security],
            "tokens": self.tokens,
            "slimmed": None if self.slimmed is None else list(self.slimmed),
            "lint": None if self.lint is None else [finding.as_json() for finding in self.lint],
        }
        return {key: value for key, value in members.items() if value is not None}

    def skipped(self, reason: str) -> "ToolVerdict":
        """Return the verdict on a tool that is not stored after all."""
        return replace(self, name="", verdict="skipped", reason=reason)


@dataclass(frozen=True, slots=True)
class SourceReport:
    """All verdicts and warnings; `tokens` is about what the tools cost a model together."""

    operations: tuple[ToolVerdict, ...] = ()
    warnings: tuple[SourceWarning, ...] = ()
    tokens: int | None = None

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "SourceReport":
        """Return the report of a converter."""
        return cls(
            operations=tuple(ToolVerdict.from_json(one) for one in form["operations"]),
            warnings=tuple(SourceWarning(one["detail"], one["pointer"]) for one in form["warnings"]),
            tokens=form.get("tokens"),
        )

    def to_json(self) -> Json:
        """Return the report as it is stored and shown. A renamed tool counts as accepted, too."""
        verdicts = [one.verdict for one in self.operations]
        form: Json = {
            "counts": {
                "operations": len(verdicts),
                "accepted": len(verdicts) - verdicts.count("skipped"),
                "renamed": verdicts.count("renamed"),
                "skipped": verdicts.count("skipped"),
            },
            "operations": [one.to_json() for one in self.operations],
            "warnings": [one.to_json() for one in self.warnings],
        }
        return form if self.tokens is None else {**form, "tokens": self.tokens}

    def with_warnings(self, *warnings: SourceWarning) -> "SourceReport":
        """Return the report with further warnings."""
        return replace(self, warnings=(*self.warnings, *warnings))

    def with_skipped(self, reasons: Mapping[str, str]) -> "SourceReport":
        """Return the report on a source of which some tools are skipped, by source key, for these reasons."""
        operations = (
            one.skipped(reasons[one.source_key])
            if one.source_key in reasons and one.verdict != "skipped"
            else one
            for one in self.operations
        )
        return replace(self, operations=tuple(operations))

    def with_judgements(self, judgements: Mapping[str, Judgement]) -> "SourceReport":
        """Return the report with the judgement on each tool, by source key, beside its verdict."""
        operations = (
            one
            if one.verdict == "skipped" or (made := judgements.get(one.source_key)) is None
            else replace(
                one,
                tokens=made.tokens,
                slimmed=tuple(made.shown.steps) if made.shown else (),
                lint=made.findings,
            )
            for one in self.operations
        )
        return replace(
            self, operations=tuple(operations), tokens=sum(one.tokens for one in judgements.values())
        )

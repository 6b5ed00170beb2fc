"""The import report: the outcome of each operation, and warnings about what was repaired or dropped."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.openapi.model import Json

_MAX_WARNINGS = 1_000


class OperationProblem(Exception):
    """An operation cannot become a tool. `reason` is the predicate of a sentence about it, `pointer` (RFC
    6901) tells where.
    """

    def __init__(self, reason: str, *, pointer: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.pointer = pointer


@dataclass(slots=True)
class Warnings:
    """Warnings about parts of the document that several operations may share, each stored once."""

    _seen: dict[tuple[str, str], None] = field(default_factory=dict)
    _omitted: int = 0

    def add(self, pointer: str, detail: str) -> None:
        """Add a warning; after the thousandth they are only counted."""
        if (pointer, detail) in self._seen:
            return
        if len(self._seen) >= _MAX_WARNINGS:
            self._omitted += 1
            return
        self._seen[pointer, detail] = None

    def as_json(self) -> list[Json]:
        """Return the warnings in the order in which they were added."""
        items = [{"pointer": pointer, "detail": detail} for pointer, detail in self._seen]
        if self._omitted:
            items.append({"pointer": "", "detail": f"{self._omitted} further warnings are left out"})
        return items


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """The outcome of one operation: its verdict, and the reason if it was skipped."""

    source_key: str
    name: str
    verdict: str
    pointer: str
    reason: str | None = None
    notes: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """Return the outcome as a member of the report's `operations`."""
        form: Json = {"source_key": self.source_key, "name": self.name, "verdict": self.verdict}
        if self.reason is not None:
            form["reason"] = self.reason
        return {**form, "pointer": self.pointer, "notes": list(self.notes)}


def report(verdicts: Sequence[OperationOutcome], warnings: Warnings) -> Json:
    """Return the report as JSON. A renamed operation also counts as accepted."""
    of = [verdict.verdict for verdict in verdicts]
    counts = {
        "operations": len(of),
        "accepted": len(of) - of.count("skipped"),
        "renamed": of.count("renamed"),
        "skipped": of.count("skipped"),
    }
    operations = [verdict.as_json() for verdict in verdicts]
    return {"counts": counts, "operations": operations, "warnings": warnings.as_json()}

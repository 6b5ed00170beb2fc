"""The import report: one verdict per operation, and what was mended or dropped on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.openapi.model import Json

_MAX_WARNINGS = 1_000


class OperationProblem(Exception):
    """This operation cannot become a tool; `reason` is a sentence, `pointer` (RFC 6901) says where."""

    def __init__(self, reason: str, *, pointer: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.pointer = pointer


@dataclass(slots=True)
class Warnings:
    """Remarks on parts of the document that several operations may share, each kept once."""

    _seen: dict[tuple[str, str], None] = field(default_factory=dict)
    _omitted: int = 0

    def add(self, pointer: str, detail: str) -> None:
        """Keep one remark; from the thousandth on they are only counted."""
        if (pointer, detail) in self._seen:
            return
        if len(self._seen) >= _MAX_WARNINGS:
            self._omitted += 1
            return
        self._seen[pointer, detail] = None

    def as_json(self) -> list[Json]:
        """The remarks in the order in which they arose."""
        remarks = [{"pointer": pointer, "detail": detail} for pointer, detail in self._seen]
        if self._omitted:
            remarks.append({"pointer": "", "detail": f"{self._omitted} further remarks are left out"})
        return remarks


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """What became of one operation; `reason` is set when it was skipped."""

    source_key: str
    name: str
    verdict: str
    pointer: str
    reason: str | None = None
    notes: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """The verdict as a member of the report's `operations`."""
        form: Json = {"source_key": self.source_key, "name": self.name, "verdict": self.verdict}
        if self.reason is not None:
            form["reason"] = self.reason
        return {**form, "pointer": self.pointer, "notes": list(self.notes)}


def report(verdicts: Sequence[OperationOutcome], warnings: Warnings) -> Json:
    """The report as JSON. A renamed operation counts as accepted, too."""
    of = [verdict.verdict for verdict in verdicts]
    counts = {
        "operations": len(of),
        "accepted": len(of) - of.count("skipped"),
        "renamed": of.count("renamed"),
        "skipped": of.count("skipped"),
    }
    operations = [verdict.as_json() for verdict in verdicts]
    return {"counts": counts, "operations": operations, "warnings": warnings.as_json()}

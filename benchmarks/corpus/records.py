"""Results: per operation, whether each metric applies and holds, summed per document and in total."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

#: The metrics that must hold in every operation of a document for it to count as perfect.
PERFECT = tuple(f"M{number}" for number in range(1, 15))
_MAX_LENGTH = 300


@dataclass(frozen=True)
class Finding:
    """One violation of a metric."""

    metric: str
    operation: str
    pointer: str
    expected: str
    got: str


class Record:
    """The results of all metrics for one operation (or, with an empty key, for the document)."""

    def __init__(self, operation: str, pointer: str) -> None:
        self._operation = operation
        self._pointer = pointer
        self.applies: dict[str, None] = {}
        self.findings: list[Finding] = []

    def check(self, metric: str, ok: bool, *, expected: Any = "", got: Any = "", at: str = "") -> bool:
        """Record that `metric` ("M9 collisions") applies, and whether it holds here."""
        self.applies[metric] = None
        if not ok:
            texts = str(expected)[:_MAX_LENGTH], str(got)[:_MAX_LENGTH]
            self.findings.append(Finding(metric, self._operation, at or self._pointer, *texts))
        return ok


@dataclass
class Scores:
    """Cases and failures by metric; each operation is one case of each metric."""

    cases: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def add(self, record: Record) -> None:
        """Count one operation, for the parts of a metric ("M9 collisions") and for the whole ("M9")."""
        parts = set(record.applies)
        bad = {finding.metric for finding in record.findings}
        for of, names in ((self.cases, parts), (self.failed, bad)):
            of.update({*names, *(name.split(" ")[0] for name in names)})

    def merge(self, other: "Scores") -> None:
        """Add another document's counts."""
        self.cases.update(other.cases)
        self.failed.update(other.failed)

    def percent(self, metric: str) -> float | None:
        """Return the percentage of the cases that hold; None without cases."""
        cases = self.cases[metric]
        return None if not cases else 100 * (cases - self.failed[metric]) / cases


@dataclass
class Assessment:
    """One document: its scores, its findings, and its cost."""

    spec: str
    operations: int = 0
    scores: Scores = field(default_factory=Scores)
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    digest: str = ""

    def take(self, records: Iterable[Record]) -> None:
        """Count the records and store their findings."""
        for record in records:
            self.scores.add(record)
            self.findings.extend(record.findings)

    @property
    def perfect(self) -> bool:
        """Whether there are no findings under M1 to M14."""
        return not any(self.scores.failed[metric] for metric in PERFECT)

    def lines(self) -> list[dict[str, Any]]:
        """Return the findings as JSON lines, with the document's name."""
        return [{"spec": self.spec, **asdict(finding)} for finding in self.findings]

"""What previews and imports found, in the order in which people need it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from app.providers.credentials.origins import origin_of

Json = Mapping[str, Any]

ROWS: Final = 50
"""Operations on one page."""


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One operation of a source: its verdict, and what was noted about it."""

    outcome: str
    name: str
    source_key: str
    description: str
    tokens: int | None
    pointer: str
    remarks: Sequence[str]
    is_hard: bool
    """Whether a model has difficulty with its tool, for a reason that is among the remarks."""


@dataclass(frozen=True)
class ReportView:
    """The report of an import, with the operations that need attention first."""

    report: Json
    descriptions: Mapping[str, str]

    @cached_property
    def rows(self) -> list[OperationRow]:
        """All operations: skipped ones, those that are hard for a model, and the others."""
        rows = [self._build_row(row) for row in self.report.get("operations") or ()]
        return sorted(rows, key=lambda row: (row.outcome != "skipped", not row.is_hard))

    @property
    def counts(self) -> Json:
        """The numbers of operations by outcome."""
        counts: Json = self.report["counts"]
        return counts

    @cached_property
    def findings(self) -> list[tuple[str, int, str]]:
        """What makes tools hard for a model: the suggestion, the number of tools, and one of them."""
        pairs = [(f, one) for one in self.report.get("operations") or () for f in one.get("lint") or ()]
        counted = Counter(f["rule"] for f, _ in pairs)
        first = {f["rule"]: (f["suggestion"], one["name"]) for f, one in reversed(pairs)}
        return [(first[rule][0], count, short_name(first[rule][1])) for rule, count in counted.most_common()]

    @property
    def final_url(self) -> str:
        """Where the URL of the source redirected to; "" where it did not."""
        return self.report.get("final_url") or ""

    def moved_origin(self, url: str) -> str:
        """Return the origin to which a URL redirected; "" where that is its own."""
        origin = origin_of(self.final_url) or ""
        return "" if origin == origin_of(url) else origin

    def _build_row(self, operation: Json) -> OperationRow:
        lint = [f"{f['detail']}" for f in operation.get("lint") or ()]
        slimmed = operation.get("slimmed") or ()
        remarks = [
            *([operation["reason"]] if operation.get("reason") else []),
            *operation.get("notes", ()),
            *slimmed,
            *lint,
        ]
        return OperationRow(
            outcome=operation["outcome"],
            name=short_name(operation["name"]),
            source_key=operation["source_key"],
            description=self.descriptions.get(operation["source_key"], ""),
            tokens=operation.get("tokens"),
            pointer=operation.get("pointer", ""),
            remarks=remarks,
            is_hard=bool(lint),
        )


@dataclass(frozen=True)
class PreviewView:
    """A preview of a registration or of a refresh."""

    result: Json

    @cached_property
    def report(self) -> ReportView:
        """The verdict on each operation."""
        texts = {one["source_key"]: one["description"] for one in self.result.get("tools") or ()}
        return ReportView(self.result["report"], texts)

    @property
    def servers(self) -> Sequence[Json]:
        """The servers of which one can be chosen."""
        servers: Sequence[Json] = self.result["report"].get("servers") or ()
        return servers

    def __getattr__(self, name: str) -> Any:
        return self.result[name]


@dataclass(frozen=True)
class BatchView:
    """The results of a list of registrations."""

    result: Json

    @property
    def entries(self) -> Sequence[Json]:
        """The result of each entry."""
        entries: Sequence[Json] = self.result["entries"]
        return entries

    @property
    def counts(self) -> Json:
        """The number of entries by outcome."""
        counts: Json = self.result["counts"]
        return counts


def short_name(name: str) -> str:
    """Return the name of a tool without that of its provider."""
    return name.partition(".")[2] or name

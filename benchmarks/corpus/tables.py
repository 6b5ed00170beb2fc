"""The scores as a table, ours beside the four others'."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.corpus import peers
from benchmarks.corpus.records import Finding, Judged, Scores

#: Two documents hold a quarter of all operations: figures are given with and without them.
GRAPH = "microsoft.com/graph"


@dataclass
class Total:
    """All documents together."""

    specs: int = 0
    operations: int = 0
    perfect: int = 0
    scores: Scores = field(default_factory=Scores)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def add(self, one: Judged) -> None:
        """Count one document."""
        self.specs += 1
        self.operations += one.operations
        self.perfect += one.perfect
        self.scores.merge(one.scores)
        self.counts.update(one.counts)
        self.seconds.append(one.seconds)

    @classmethod
    def of(cls, judged: Iterable[Judged]) -> "Total":
        """The sum of some documents."""
        total = cls()
        for one in judged:
            total.add(one)
        return total


def _percent(scores: Scores, metrics: Sequence[str]) -> str:
    shares = [scores.percent(metric) for metric in metrics]
    # Rounded down: 99.9996 is not 100.
    return " / ".join("-" if one is None else f"{int(one * 1000) / 1000:g}" for one in shares)


def table(total: Total, without_graph: Total, strata: Scores) -> str:
    """M1 to M16 and M18 for people."""
    lines = [_line("metric", "ours", "ours, no Graph", *peers.NAMES)]
    lines.append("-" * len(lines[0]))
    for title, metrics, others in peers.ROWS:
        lines.append(
            _line(title, _percent(total.scores, metrics), _percent(without_graph.scores, metrics), *others)
        )
    own = [f"{100 * one.perfect / max(one.specs, 1):.2f}" for one in (total, without_graph)]
    lines.append(_line("specs perfect on M1-M14", *own, *peers.PERFECT))
    if strata.cases:
        lines.append(
            _line(
                f"M16 strata ({strata.cases['M16']} cases)", _percent(strata, ["M16"]), "", "-", "-", "-", "-"
            )
        )
    lines.append(_line("seconds p50 / p99 / max", _seconds(total), _seconds(without_graph), *peers.SECONDS))
    lines.append(
        _line(
            "M18 tools over 30 kB",
            str(total.counts["large"]),
            str(without_graph.counts["large"]),
            "",
            "632",
            "691",
            "",
        )
    )
    unflagged = [_percent(one.scores, ["M18 large tools"]) for one in (total, without_graph)]
    lines.append(_line("M18 small or flagged", *unflagged, "-", "-", "-", "-"))
    lines.append(
        f"{total.specs} documents, {total.operations} operations, {total.specs - total.perfect} not perfect"
    )
    return "\n".join(lines)


def _line(title: str, *cells: str) -> str:
    return f"{title:34}" + "".join(f"{cell:>17}" for cell in cells)


def _seconds(total: Total) -> str:
    times = sorted(total.seconds) or [0.0]
    middle, late = times[len(times) // 2], times[min(len(times) - 1, int(len(times) * 0.99))]
    return f"{middle:.3f}/{late:.2f}/{times[-1]:.1f}"


def strata_table(strata: Scores, findings: Sequence[Finding]) -> str:
    """M16 by stratum."""
    names = sorted(name for name in strata.cases if " " in name)
    rows = [f"{name:40}{strata.cases[name]:>8}{strata.failed[name]:>8} wrong" for name in names]
    return "\n".join(
        [*rows, *(f"{one.metric}: expected {one.expected}, got {one.got}" for one in findings[:20])]
    )

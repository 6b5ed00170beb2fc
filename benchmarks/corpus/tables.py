"""The scores as a table, the gateway's beside those of four other converters."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.corpus import peers
from benchmarks.corpus.records import Assessment, Finding, Scores

#: Two documents hold a quarter of all operations: figures are given with and without them.
GRAPH = "microsoft.com/graph"
_UNKNOWN = ("-", "-", "-", "-")


@dataclass
class Total:
    """The sum over documents."""

    specs: int = 0
    operations: int = 0
    perfect: int = 0
    scores: Scores = field(default_factory=Scores)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def add(self, one: Assessment) -> None:
        """Count one document."""
        self.specs += 1
        self.operations += one.operations
        self.perfect += one.perfect
        self.scores.merge(one.scores)
        self.counts.update(one.counts)
        self.seconds.append(one.seconds)

    @classmethod
    def of(cls, assessments: Iterable[Assessment]) -> "Total":
        """Return the sum over some documents."""
        total = cls()
        for one in assessments:
            total.add(one)
        return total


def _percent(scores: Scores, metrics: Sequence[str]) -> str:
    shares = [scores.percent(metric) for metric in metrics]
    # Rounded down: 99.9996 is not 100.
    return " / ".join("-" if one is None else f"{int(one * 1000) / 1000:g}" for one in shares)


def table(total: Total, without_graph: Total, strata: Scores) -> str:
    """Return M1 to M16 and M18 as a table."""
    both = (total, without_graph)
    rows: list[tuple[str, ...]] = [("metric", "cases", "ours", "ours, no Graph", *peers.NAMES)]
    for title, metrics, others in peers.ROWS:
        cases = " / ".join(str(total.scores.cases[metric]) for metric in metrics)
        rows.append((title, cases, *(_percent(one.scores, metrics) for one in both), *others))
    perfect = [f"{100 * one.perfect / max(one.specs, 1):.2f}" for one in both]
    rows.append(("specs perfect on M1-M14", str(total.specs), *perfect, *peers.PERFECT))
    if strata.cases:
        rows.append(
            ("M16 wire, all strata", str(strata.cases["M16"]), _percent(strata, ["M16"]), "", *_UNKNOWN)
        )
    rows.append(("seconds p50/p99/max", "", *map(_seconds, both), *peers.SECONDS))
    rows.append(
        ("M18 tools over 30 kB", "", *(str(one.counts["large"]) for one in both), "", "632", "691", "")
    )
    small = [_percent(one.scores, ["M18 large tools"]) for one in both]
    rows.append(("M18 small or flagged", str(total.counts["tools"]), *small, *_UNKNOWN))
    found = (
        f"{total.specs} documents, {total.operations} operations, {total.specs - total.perfect} not perfect"
    )
    return "\n".join([*map(_line, rows), found])


def _line(cells: tuple[str, ...]) -> str:
    title, cases, *others = cells
    return f"{title:34}{cases:>16}" + "".join(f"{cell:>16}" for cell in others)


def _seconds(total: Total) -> str:
    times = sorted(total.seconds) or [0.0]
    middle, late = times[len(times) // 2], times[min(len(times) - 1, int(len(times) * 0.99))]
    return f"{middle:.3f}/{late:.2f}/{times[-1]:.1f}"


def strata_table(strata: Scores, findings: Sequence[Finding]) -> str:
    """Return M16 by stratum as a table."""
    names = sorted(name for name in strata.cases if " " in name)
    rows = [f"{name:40}{strata.cases[name]:>8}{strata.failed[name]:>8} wrong" for name in names]
    return "\n".join(
        [*rows, *(f"{one.metric}: expected {one.expected}, got {one.got}" for one in findings[:20])]
    )

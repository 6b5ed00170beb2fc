"""The report: what was tried, what was expected, what was found."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report."""

    id: str
    tried: str
    expected: str
    found: str
    ok: bool

    def as_json(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        return asdict(self)


def missed_scenarios(rows: list[Row]) -> list[str]:
    """Return the ids of the rows that were missed, each once, in their order."""
    return list(dict.fromkeys(row.id for row in rows if not row.ok))


def missed_lines(rows: list[Row]) -> str:
    """Return a line for each row that was missed; "" where there is none."""
    return "\n".join(
        f"missed {row.id}: {row.tried}: {row.found} (expected: {row.expected})" for row in rows if not row.ok
    )


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| | tried | expected | found | |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.id} | {row.tried} | {row.expected} | {row.found} | {'met' if row.ok else '**missed**'} |"
        for row in rows
    ]
    return "\n".join(lines)

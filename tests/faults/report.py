"""The table: what was tried, what was expected, what was found."""

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
        """All of it."""
        return asdict(self)


def table(rows: list[Row]) -> str:
    """Markdown."""
    lines = ["| | tried | expected | found | |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.id} | {row.tried} | {row.expected} | {row.found} | {'kept' if row.ok else '**BROKEN**'} |"
        for row in rows
    ]
    return "\n".join(lines)

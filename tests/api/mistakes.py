"""The exact texts of `tests/api/mistakes.md`: what newcomers get for common mistakes."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "mistakes.md"


def expected_texts() -> dict[str, str]:
    """Return the text of each mistake: the indented lines below its heading."""
    found = {}
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        name, _, body = section.partition("\n")
        lines = [line[4:] for line in body.splitlines() if line.startswith("    ")]
        found[name] = "\n".join(lines)
    return found


def as_text(problem: Mapping[str, Any]) -> str:
    """Return what a problem says to a reader: status, title, detail, field errors, hint."""
    lines = [f"{problem['status']} {problem['title']}", problem["detail"]]
    lines += [f"{error['pointer'] or '(body)'}: {error['detail']}" for error in problem.get("errors", ())]
    lines.append(f"Hint: {problem['hint']}")
    if problem["retryable"]:
        lines.append("Retryable.")
    return "\n".join(lines)


def with_placeholders(text: str, places: Mapping[str, str]) -> str:
    """Return the text with `{name}` in place of what differs from run to run."""
    for value, name in sorted(places.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(value, f"{{{name}}}")
    return text

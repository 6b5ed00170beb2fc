"""What masking a response costs: `python -m benchmarks.masking` prints the table of docs/decisions/0040.

Microseconds for a body without a match, for a key of 40 characters: the median of rounds that take all rows
and sizes in turn, so that other work of the machine affects all of them. The last row is printed where
ahocorasick_rs is installed, which the project does not need.
"""

import importlib
import json
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

from app.security.masking import secret_forms
from app.security.response_masking import ResponseMasker

SIZES = {"200 B": 200, "2 kB": 2_000, "10 kB": 10_000, "64 kB": 64_000, "1 MB": 1_000_000}
_KEY = "sk-live-9f8e7d6c5b4a39281706f5e4d3c2b1a0"
_ROUNDS = 25
_SHARE = 0.004
"""Seconds for a cell in a round."""


def rows() -> dict[str, tuple[str, Callable[[bytes], Any]]]:
    """Return, by name, the kind of body and the function that is measured with it."""
    masker = ResponseMasker([_KEY])
    forms = [form.encode() for form in secret_forms(_KEY)]
    regex = re.compile(b"|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
    found: dict[str, tuple[str, Callable[[bytes], Any]]] = {
        f"`in`, all {len(forms)} forms": ("plain", lambda body: [form in body for form in forms]),
        "`mask` (chosen)": ("plain", masker.mask),
        "`mask_json`, no escapes": ("plain", masker.mask_json),
        '`mask_json`, `\\n` and `\\"` only': ("quotes", masker.mask_json),
        "`mask_json`, one `\\u0026`": ("one", masker.mask_json),
        "`mask_json`, `\\u0026` in each row": ("many", masker.mask_json),
        "each string decoded (`mask_strings`)": ("one", masker.mask_strings),
        "one regular expression": ("plain", regex.search),
    }
    try:
        automaton = importlib.import_module("ahocorasick_rs").BytesAhoCorasick(forms)
        found["ahocorasick_rs"] = ("plain", automaton.find_matches_as_indexes)
    except ImportError:
        pass
    return found


def body_of(size: int, kind: str) -> bytes:
    """A list of objects of about this size; see `rows` for its kind."""
    name = {"plain": "Name of", "one": "Name of", "quotes": 'A\n"name" of', "many": "Name & of"}[kind]
    listed: list[dict[str, Any]] = []
    length = 2
    while length < size:
        row = {"id": len(listed), "name": f"{name} {len(listed)}", "url": f"https://a.example/{len(listed)}"}
        listed.append(row)
        length += len(json.dumps(row)) + 2
    body = json.dumps(listed).replace("&", "\\u0026").encode()
    return body.replace(b"Name", b"\\u0026", 1) if kind == "one" else body


def timed(work: Callable[[bytes], Any], body: bytes) -> float:
    """Return the microseconds of one run, as the mean of as many as fit into its share of time."""
    number = 0
    began = time.perf_counter()
    while (passed := time.perf_counter() - began) < _SHARE or not number:
        work(body)
        number += 1
    return passed / number * 1e6


def main() -> None:
    """Measure, and print the table."""
    chosen = rows()
    bodies = {(size, kind): body_of(SIZES[size], kind) for size in SIZES for kind, _ in chosen.values()}
    taken: dict[tuple[str, str], list[float]] = {}
    for _ in range(_ROUNDS):
        for name, (kind, work) in chosen.items():
            for size in SIZES:
                taken.setdefault((name, size), []).append(timed(work, bodies[size, kind]))
    print("| us |", " | ".join(SIZES), "|")
    print("|---" * (len(SIZES) + 1) + "|")
    for name in chosen:
        cells = [
            f"{median:,.1f}" if (median := statistics.median(taken[name, size])) < 10 else f"{median:,.0f}"
            for size in SIZES
        ]
        print(f"| {name} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()

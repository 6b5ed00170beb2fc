"""`python -m tests.harness.retried TARGET FAILED...`: exits with 0 where all that failed may be run again, and prints why where not.

Which may is in `tests/retried.txt`. Without tests, it reads those of the last run of pytest.
"""

import json
import re
import sys
from pathlib import Path

LIST = Path("tests/retried.txt")
_LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def read_list(text: str) -> tuple[int, set[tuple[str, str]]]:
    """Return the ceiling of the list and its lines, as pairs of the make target and the test."""
    ceiling = re.search(r"^# ceiling: (\d+)$", text, re.MULTILINE)
    assert ceiling is not None, "tests/retried.txt has no line `# ceiling: N`"
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    return int(ceiling[1]), {(target, test) for target, test in lines}


def find_unlisted(target: str, failed: list[str], listed: set[tuple[str, str]]) -> list[str]:
    """Return those of the failed tests that may not be run again."""
    return [test for test in failed if (target, test) not in listed]


def main() -> int:
    """Run the command."""
    target, *failed = sys.argv[1:]
    failed = failed or (list(json.loads(_LAST_FAILED.read_text())) if _LAST_FAILED.exists() else [])
    _, listed = read_list(LIST.read_text())
    unlisted = find_unlisted(target, failed, listed)
    for test in unlisted or failed:
        print(
            f"== make {target}: failed{' and not in tests/retried.txt' if unlisted else ', run again'}: {test}"
        )
    return 1 if unlisted or not failed else 0


if __name__ == "__main__":
    sys.exit(main())

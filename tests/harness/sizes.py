"""`python -m tests.harness.sizes`: names files of `app/` over 600 lines and functions over 80, as a warning only.

A file is one concept: whether a long one should be split is decided in review.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80


def oversized(folder: Path) -> Iterator[str]:
    """Yield a line for each file and each function below `folder` that is over its limit."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        name = path.relative_to(folder.parent)
        lines = len(text.splitlines())
        if lines > MAX_FILE_LINES:
            yield f"{name}: {lines} lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    yield f"{name}:{node.lineno}: {node.name} has {length} lines"


if __name__ == "__main__":
    for line in oversized(ROOT / "app"):
        print(f"warning: {line}")

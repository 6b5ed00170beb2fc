"""Limits of a file (600 lines), a function (80 lines) and its parameters (8); and no vague names."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "app").rglob("*.py"))
_VAGUE = {"utils", "helpers", "helper", "manager", "common", "misc", "info"}

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(path: Path) -> list[_Function]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, _Function)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_keeps_within_the_budgets(path):
    assert len(path.read_text().splitlines()) <= 600
    assert path.stem not in _VAGUE
    for function in _functions(path):
        place = f"{function.name} in line {function.lineno}"
        assert (function.end_lineno or 0) - function.lineno + 1 <= 80, place
        arguments = function.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        assert len([name for name in names if name not in ("self", "cls")]) <= 8, place

"""Names of files say what is in them, and functions but commands take at most 8 parameters; sizes are warned of."""

import ast
from pathlib import Path

from app.cli.root import COMMANDS
from tests.harness.cases import for_each
from tests.harness.sizes import MAX_FILE_LINES, MAX_FUNCTION_LINES, oversized

ROOT = Path(__file__).parents[3]
_VAGUE = {"utils", "helpers", "helper", "manager", "common", "misc", "info"}

_ROOT_COMMANDS = {entry.attribute for entry in COMMANDS.values()} - {"commands"}

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(path: Path) -> list[_Function]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, _Function)]


def _is_command(function: _Function) -> bool:
    """Whether a function is a Typer command, whose parameters are its options (decision 49).

    A group's commands are decorated; a command of the root is named in `app.cli.root.COMMANDS`.
    """
    return function.name in _ROOT_COMMANDS or any(
        ast.unparse(decorator).startswith("commands.command(") for decorator in function.decorator_list
    )


@for_each("path", lambda: sorted((ROOT / "app").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_names_and_parameters_keep_within_the_limits(path):
    assert path.stem not in _VAGUE
    for function in _functions(path):
        if _is_command(function):
            continue
        arguments = function.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        place = f"{function.name} in line {function.lineno}"
        assert len([name for name in names if name not in ("self", "cls")]) <= 8, place


def test_long_files_and_functions_are_warned_of(tmp_path):
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "short.py").write_text("def one():\n    return 1\n")
    body = "    x = 1\n" * MAX_FUNCTION_LINES
    (folder / "long.py").write_text(f"def two():\n{body}" + "\n" * (MAX_FILE_LINES - MAX_FUNCTION_LINES))
    assert list(oversized(folder)) == [
        f"app/long.py: {MAX_FILE_LINES + 1} lines",
        f"app/long.py:1: two has {MAX_FUNCTION_LINES + 1} lines",
    ]

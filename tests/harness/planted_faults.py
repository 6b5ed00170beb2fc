"""Plants small faults in `app/`, one at a time, and says which the tests of its package find.

    python -m tests.harness.planted_faults list                 the 60 faults, as lines changed
    python -m tests.harness.planted_faults run RESULTS [--only PACKAGE ...] [--share 1/2]

The faults are drawn from a fixed seed: one in each package, the rest in the loose modules. A result is a line of JSON in RESULTS;
faults that stand there already are not tried again. A fault is planted in this checkout and removed again, so the
checkout should be one of its own.
"""

import argparse
import ast
import importlib.util
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.selection import ROOT, find_importing_tests, find_own_tests, list_packages, list_test_files

SEED = 25
FAULTS = 60
# Enough to find a fault in a package whose tests stand in other folders.
MAX_FILES = 12
_SECONDS = 420

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """The text `[start, end)` of a file, counted in characters, is replaced."""

    path: str
    line: int
    start: int
    end: int
    replacement: str
    operator: str

    @property
    def package(self) -> str:
        """The top-level package or module of `app/`."""
        return Path(self.path).parts[1].removesuffix(".py")

    def apply(self, text: str) -> str:
        """Return the text of the file with the fault."""
        return text[: self.start] + self.replacement + text[self.end :]


def _swap_comparison(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        return ast.Compare(node.left, [_COMPARISONS[type(node.ops[0])]()], node.comparators)
    return None


def _swap_connective(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    return None


def _negate_condition(node: ast.AST) -> ast.AST | None:
    # Of an `if` or a conditional expression; the caller replaces the condition alone.
    if isinstance(node, ast.If | ast.IfExp) and not isinstance(node.test, ast.Compare | ast.BoolOp):
        return ast.UnaryOp(ast.Not(), node.test)
    return None


def _increase_number(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(node.value + 1)
    return None


def _flip_boolean(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        return ast.Constant(not node.value)
    return None


def _drop_return_value(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        return ast.Return(ast.Constant(None))
    return None


def _drop_statement(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
        return ast.Pass()
    if isinstance(node, ast.Raise):
        return ast.Pass()
    return None


OPERATORS: tuple[Callable[[ast.AST], ast.AST | None], ...] = (
    _swap_comparison, _swap_connective, _negate_condition, _increase_number, _flip_boolean, _drop_return_value,
    _drop_statement,
)  # fmt: skip


def find_faults(path: Path) -> Iterator[Fault]:
    """Yield every fault that an operator can plant inside a function of the file, in the order of the text.

    Annotations, defaults that are types, log statements and what runs only for type checkers are left alone.
    """
    text = path.read_text()
    tree = ast.parse(text)
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines(keepends=True)

    def get_offset(line: int, column: int) -> int:
        # ast counts bytes of UTF-8.
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for node in _walk_bodies(tree):
        for operator in OPERATORS:
            replacement = operator(node)
            if replacement is None:
                continue
            place: Any = (
                node.test if isinstance(node, ast.If | ast.IfExp) and operator is _negate_condition else node
            )
            yield Fault(
                str(path.relative_to(ROOT)),
                place.lineno,
                get_offset(place.lineno, place.col_offset),
                get_offset(place.end_lineno, place.end_col_offset),
                _write(replacement, node),
                operator.__name__.removeprefix("_"),
            )


def _write(replacement: ast.AST, node: ast.AST) -> str:
    text = ast.unparse(replacement)
    # What was within a larger expression stays one operand of it.
    return text if isinstance(node, ast.stmt) and not isinstance(node, ast.If) else f"({text})"


def _walk_bodies(node: ast.AST, *, inside: bool = False) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params", "bases"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_log(child) or isinstance(child, ast.JoinedStr):
                continue
            if inside:
                yield child
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk_bodies(child, inside=inside or function)


def _is_log(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith(("_log.", "await _log."))


def draw_faults() -> list[Fault]:
    """Return the faults of the seed: one in each package, the rest of FAULTS one in each of as many loose modules."""
    random_ = random.Random(SEED)
    packages = list_packages()
    folders = [name for name in packages if _place(name).is_dir()]
    modules = [name for name in packages if name not in folders]
    rest = random_.sample(modules, min(max(FAULTS - len(folders), 0), len(modules)))
    faults: list[Fault] = []
    for name in folders + sorted(rest):
        place = _place(name)
        paths = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        # By operator first: comparisons would else be half of all.
        found = [fault for path in paths if not path.name.endswith("_pb2.py") for fault in find_faults(path)]
        operators = sorted({fault.operator for fault in found})
        if operators:
            operator = random_.choice(operators)
            faults.append(random_.choice([fault for fault in found if fault.operator == operator]))
    return faults


def _place(package: str) -> Path:
    """Return the folder of a package, or the path of a module without its suffix."""
    return ROOT / "app" / package.replace(".", "/")


def select_tests(package: str) -> list[str]:
    """Return the files of tests with which a fault of the package is tried: its own, then some that import it."""
    own = find_own_tests(package)
    paths = own or [path for path in list_test_files() if package in path.stem]
    others = [path for path in find_importing_tests(package) if path not in paths]
    paths += others[: max(MAX_FILES - len(paths), 0)]
    return [str(path.relative_to(ROOT)) for path in paths]


def try_fault(fault: Fault) -> str:
    """Plant the fault, run the tests of its package, and remove it; return `found`, `not found`, or `limit`."""
    path = ROOT / fault.path
    text = path.read_text()
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "-m", "not long", "-p", "no:cacheprovider", *select_tests(fault.package),
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    try:
        _write_module(path, fault.apply(text))
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "limit"
    finally:
        _write_module(path, text)
    return "not found" if ended.returncode == 0 else "found"


def _write_module(path: Path, text: str) -> None:
    path.write_text(text)
    # Two texts of one second and one size have the same byte code for the interpreter.
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("list", "run"))
    parser.add_argument("results", nargs="?", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="PACKAGE")
    parser.add_argument("--share", default="1/1", help="K/N: every N-th fault, beginning with the K-th")
    options = parser.parse_args()
    first, step = map(int, options.share.split("/"))
    faults = draw_faults()[first - 1 :: step]
    if options.action == "list":
        for fault in faults:
            text = (ROOT / fault.path).read_text()
            was = " ".join(text[fault.start : fault.end].split())
            print(f"{fault.path}:{fault.line} {fault.operator}: {was[:60]} -> {fault.replacement[:60]}")
        return
    done = set()
    if options.results.exists():
        done = {json.loads(line)["fault"] for line in options.results.read_text().splitlines()}
    for fault in faults:
        name = f"{fault.path}:{fault.line} {fault.operator} {fault.start}"
        if name in done or (options.only and fault.package not in options.only):
            continue
        verdict = try_fault(fault)
        with options.results.open("a") as results:
            results.write(json.dumps({"fault": name, "package": fault.package, "verdict": verdict}) + "\n")
        print(f"{verdict:10} {name}", flush=True)


if __name__ == "__main__":
    main()

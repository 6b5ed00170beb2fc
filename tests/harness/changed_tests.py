"""Runs the tests of what differs from `main`: `make test-changed`.

    python -m tests.harness.changed_tests [--base REVISION] [--list] [OPTIONS OF PYTEST]

A file counts as changed where it differs from the merge base with `main`, committed or not, or is untracked.

- A package of `app/`, at most two levels deep: the tests in folders of its path, those that import it, and the tests in
  folders of the path of each package that imports it directly. On ground packages all else stands (those of the layer of
  `formats` in pyproject.toml, and below), so that of these only the tests of their path run.
- A file of tests runs itself. A file that tests use (`conftest.py`, a module of `tests/harness`, data) stands for all
  test files that use it, directly or through others.
- A folder beside `app/` that has tests of its name (`migrations`, `examples`, ...) stands for those.

All other tests are left out, and named as such: `make test` runs them.
"""

import argparse
import ast
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grimp

from tests.harness.selection import (
    ROOT,
    SUITES,
    find_importing_tests,
    find_own_tests,
    get_package,
    list_test_files,
)

_HIGHEST_OF_GROUND = "formats"
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages of `app/`: those that import each directly, and those of the top level that are ground."""

    importers: Mapping[str, frozenset[str]]
    ground: frozenset[str]

    def is_ground(self, package: str) -> bool:
        """Return whether all else stands on a package."""
        return package.partition(".")[0] in self.ground


@dataclass(slots=True)
class Selection:
    """The test files that run, and sentences on why, and on what does not run."""

    files: set[Path] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def list_changed_files(root: Path, base: str | None = None) -> tuple[str, list[str]]:
    """Return the revision to compare with, and the paths that differ from it, with those that git does not track.

    The revision is the merge base of HEAD and `base`, by default `main` or, without a branch of this name, HEAD.
    """
    if base is None:
        branches = _read_git(root, "for-each-ref", "--format=%(refname)", "refs/heads/main")
        base = (branches or ["HEAD"])[0]
    (revision,) = _read_git(root, "merge-base", "HEAD", base)
    changed = _read_git(root, "diff", "--name-only", "--no-renames", "--relative", revision)
    untracked = _read_git(root, "ls-files", "--others", "--exclude-standard")
    return revision, sorted({*changed, *untracked})


def _read_git(root: Path, *arguments: str) -> list[str]:
    command = ["git", "-c", "core.quotePath=off", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.splitlines()


def find_ground(layers: Sequence[str]) -> frozenset[str]:
    """Return the packages of the layer of `formats` and of those below; `layers` are those of import-linter."""
    split = [{name.strip() for name in layer.split("|")} for layer in layers]
    first = next(number for number, names in enumerate(split) if _HIGHEST_OF_GROUND in names)
    return frozenset().union(*split[first:])


def read_packages(root: Path) -> Packages:
    """Return the packages of `app/` by its import graph and the layers in pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    layers = next(
        contract["layers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == ["app"]
    )
    graph = grimp.build_graph("app", exclude_type_checking_imports=True)
    importers: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            if get_package(module) != get_package(imported):
                importers[get_package(imported)].add(get_package(module))
    return Packages({name: frozenset(found - {""}) for name, found in importers.items()}, find_ground(layers))


def read_uses(root: Path) -> dict[str, set[str]]:
    """Return, for each Python file of tests, the files of tests that it uses: modules that it imports, and each
    `conftest.py` of its folder and those above it.
    """
    paths = {str(path.relative_to(root)) for path in (root / "tests").rglob("*.py")}
    uses: dict[str, set[str]] = {}
    for path in paths:
        imported = {
            candidate
            for name in _imports(ast.parse((root / path).read_text()))
            for candidate in (name.replace(".", "/") + ".py", name.replace(".", "/") + "/__init__.py")
        }
        above = {str(folder / "conftest.py") for folder in Path(path).parents}
        uses[path] = ((imported | above) & paths) - {path}
    return uses


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names of `tests` that a file imports, whether modules or what is in them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("tests."))
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "tests":
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def find_users(changed: str, uses: Mapping[str, Iterable[str]]) -> set[str]:
    """Return all files that use a file of tests, directly or through others.

    What is no Python file is taken for data of the Python files of its folder and those below.
    """
    if changed.endswith(".py"):
        users = {changed}
    else:
        users = {path for path in uses if path.startswith(f"{Path(changed).parent}/")}
    waiting = list(users)
    while waiting:
        used = waiting.pop()
        more = {path for path, others in uses.items() if used in others} - users
        users |= more
        waiting += more
    return users - {changed}


def select_tests(changed: Sequence[str], packages: Packages, uses: Mapping[str, Iterable[str]]) -> Selection:
    """Return the tests of the changed files; all paths are relative to the repository."""
    selection = Selection()
    all_files = {str(path.relative_to(ROOT)): path for path in list_test_files()}
    for package in sorted({_package_of(path) for path in changed} - {""}):
        _add_package(package, packages, selection)
    for path in changed:
        if path in all_files:
            selection.files.add(all_files[path])
            selection.reasons.append(f"{path}: itself")
        elif path.startswith("tests/"):
            users = {all_files[user] for user in find_users(path, uses) if user in all_files}
            if users:
                selection.files |= users
                selection.reasons.append(f"{path}: {_count(users)} using it")
            else:
                selection.left_out.append(f"{path}: no test of make test uses it")
    beside = sorted({path.partition("/")[0] for path in changed} - {"app", "tests"})
    for name in beside:
        own = set(list_own_tests(name))
        if own:
            selection.files |= own
            selection.reasons.append(f"{name}: {_count(own)} of its own")
        else:
            selection.left_out.append(f"{name}: no tests of its name")
    return selection


def _add_package(package: str, packages: Packages, selection: Selection) -> None:
    own = set(list_own_tests(package))
    importers = packages.importers.get(package, frozenset())
    selection.files |= own
    if packages.is_ground(package):
        selection.reasons.append(f"app/{_path(package)}, which is ground: {_count(own)} of its own")
        if importers:
            selection.left_out.append(
                f"app/{_path(package)}: the tests of {_names(importers)}, which import it"
            )
        return
    importing = set(find_importing_tests(package)) - own
    others = {path for name in importers for path in list_own_tests(name)} - own - importing
    selection.files |= importing | others
    reason = f"app/{_path(package)}: {_count(own)} of its own, {_count(importing)} importing it"
    if importers:
        reason += f", {_count(others)} of {_names(importers)}"
    selection.reasons.append(reason)


def list_own_tests(package: str) -> list[Path]:
    """Return the tests in folders of a package's path; a suite of its name is such a folder."""
    return sorted(find_own_tests(package))


def _package_of(path: str) -> str:
    """Return the package of `app/` that a file is in, "" for others."""
    parts = path.removesuffix(".py").split("/")
    return get_package(".".join(parts)) if parts[0] == "app" else ""


def _path(package: str) -> str:
    return package.replace(".", "/")


def _count(files: Iterable[Path]) -> str:
    number = len(list(files))
    return f"{number} test file" + ("" if number == 1 else "s")


def _names(names: Iterable[str]) -> str:
    first = sorted(names)
    more = len(first) - _SHOWN
    return ", ".join(first[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def main() -> int:
    """Print what is selected and what is left out, and run pytest with the selected files."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.changed_tests", allow_abbrev=False)
    parser.add_argument("--base", help="the revision whose merge base with HEAD is compared with")
    parser.add_argument("--list", action="store_true", help="print the selected files, and run nothing")
    options, for_pytest = parser.parse_known_args()
    revision, changed = list_changed_files(ROOT, options.base)
    selection = select_tests(changed, read_packages(ROOT), read_uses(ROOT))
    files = [path for path in list_test_files() if path in selection.files]
    total = len(list_test_files())
    print(
        f"Changed files since {revision[:10]}: {len(changed)}. Test files that run: {len(files)} of {total}."
    )
    for reason in selection.reasons:
        print(f"  {reason}")
    if len(files) < total:
        print(
            f"Left out, and run by make test: {_count(path for path in list_test_files() if path not in files)}."
        )
    for reason in selection.left_out:
        print(f"  {reason}")
    sys.stdout.flush()
    if options.list:
        for path in files:
            print(path.relative_to(ROOT))
    if options.list or not files:
        return 0
    chosen = SUITES if len(files) == total else files
    command = [sys.executable, "-m", "pytest", *for_pytest, *map(str, chosen)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

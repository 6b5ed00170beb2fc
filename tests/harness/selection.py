"""Which tests belong to a package of `app/`: those in folders of its path, and those that import it."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITES = ("tests/unit", "tests/integration", "tests/protocols", "tests/api")


@cache
def get_package(module: str) -> str:
    """Return the package of a dotted name of `app`, at most two levels deep: `app.calls.log.store` -> `calls.log`.

    A module beside packages belongs to the package that it is in (`app.calls.context` -> `calls`); one of `core`, and
    one on the top level, stands for itself (`app.core.uuid7` -> `core.uuid7`).
    """
    parts = module.split(".")[1:]
    if len(parts) > 1 and (parts[0] == "core" or (ROOT / "app" / parts[0] / parts[1]).is_dir()):
        return f"{parts[0]}.{parts[1]}"
    return parts[0] if parts else ""


def list_packages() -> list[str]:
    """Return the names of the packages that `get_package` distinguishes, sorted."""
    modules = (
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        for path in (ROOT / "app").rglob("*.py")
    )
    return sorted({get_package(module) for module in modules} - {""})


@cache
def read_imports(path: Path) -> frozenset[str]:
    """Return the dotted names of the modules of `app` that a file imports, whether at its top or in a function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(name for name in names if name.startswith("app."))


def list_test_files() -> list[Path]:
    """Return the files of tests that `make test` runs, those that start the least first."""
    return [path for suite in SUITES for path in sorted((ROOT / suite).rglob("test_*.py"))]


def find_own_tests(package: str) -> list[Path]:
    """Return the files of tests in folders of a package's path in any suite, or those that have its name there.

    A package without such tests has those directly in the folder of the package around it.
    """
    parts = tuple(package.split("."))
    own = [path for path in list_test_files() if _is_below(path, parts)]
    if own or len(parts) == 1 or not ROOT.joinpath("app", *parts).is_dir():
        return own
    return [path for path in list_test_files() if _folder(path)[-1:] == parts[:1]]


def _folder(path: Path) -> tuple[str, ...]:
    """Return the folders of a file below `tests/`, its suite first."""
    return path.relative_to(ROOT / "tests").parent.parts


def _is_below(path: Path, package: tuple[str, ...]) -> bool:
    folder = _folder(path)
    named = (*folder, path.stem.removeprefix("test_"))
    return any(
        names[first : first + len(package)] == package for names in (folder, named) for first in (0, 1)
    )


def find_importing_tests(package: str) -> list[Path]:
    """Return the files of tests that import from the package."""
    return [
        path for path in list_test_files() if any(get_package(name) == package for name in read_imports(path))
    ]

"""Which tests belong to a package of `app/`: those in folders and files of its name, and those that import it."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITES = ("tests/unit", "tests/protocols", "tests/api")


def get_package(module: str) -> str:
    """Return the package, or the loose module, on the top level of `app/` that a dotted name is in: `app.calls.plan` -> `calls`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def list_packages() -> list[str]:
    """Return the names of the packages and of the loose modules on the top level of `app/`, sorted."""
    folders = [path.parent.name for path in (ROOT / "app").glob("*/__init__.py")]
    return sorted(folders + [path.stem for path in (ROOT / "app").glob("*.py") if path.stem != "__init__"])


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
    """Return the files of tests in a folder that has the package's name, or that have it themselves.

    The name of an edge, like `toolset_api`, stands for that of its feature (`toolsets`), too.
    """
    feature = package.removesuffix("_api")
    names = {package, feature, f"{feature}s"}
    return [
        path
        for path in list_test_files()
        if names & set(path.relative_to(ROOT).parts[2:-1]) or path.stem.removeprefix("test_") in names
    ]


def find_importing_tests(package: str) -> list[Path]:
    """Return the files of tests that import from the package."""
    return [
        path for path in list_test_files() if any(get_package(name) == package for name in read_imports(path))
    ]

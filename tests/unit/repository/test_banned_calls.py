"""Calls that ruff bans (pyproject.toml) are also in no file in which its rule of banned APIs is off."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDERS = ("app", "tests", "benchmarks", "examples", "scripts", "migrations", "packages")


def _list_uses(source: str) -> Iterator[int]:
    """Yield the lines at which `asyncio.wait_for` is named; another object's `wait_for` is no matter."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="asyncio"), attr="wait_for"):
                yield node.lineno
            case ast.ImportFrom(module="asyncio", names=names) if any(
                name.name == "wait_for" for name in names
            ):
                yield node.lineno


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import asyncio\nawait asyncio.wait_for(event.wait(), 1)", [2]),
        ("from asyncio import wait, wait_for", [1]),
        ("async with asyncio.timeout(1):\n    await gateway.wait_for('asyncio.wait_for')", []),
    ],
)
def test_uses_are_seen(source: str, lines: list[int]) -> None:
    assert list(_list_uses(source)) == lines


def test_nothing_waits_by_what_loses_a_cancellation(repository_root: Path) -> None:
    files = [
        path
        for folder in FOLDERS
        for path in (repository_root / folder).rglob("*.py")
        if not any(part.startswith(".") for part in path.relative_to(repository_root).parts)
    ]
    assert len(files) > 1_000
    texts = {path: path.read_text() for path in files}
    uses = [
        f"{path.relative_to(repository_root)}:{line}"
        for path, text in texts.items()
        if "wait_for" in text
        for line in _list_uses(text)
    ]
    assert uses == []

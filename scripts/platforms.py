"""Check that the locked lists have wheels for each platform and version of Python (`make platforms`).

The resolver, uv, looks for a wheel of each locked version, with the locked hashes, as pip would on that
platform; nothing is downloaded but metadata, and nothing is installed.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REQUIREMENTS: Final = Path(__file__).parents[1] / "requirements"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
_MISSING: Final = re.compile(r"Because ([A-Za-z0-9._-]+)\S*==\S+ has no (?:usable )?wheels")
_MAX_MISSING: Final = 20


@dataclass(frozen=True, slots=True)
class TargetPlatform:
    """A platform that is supported: its name for people, its name for uv, and the lists that must fit it.

    `macos` is the version of macOS, "" elsewhere.
    """

    name: str
    tag: str
    lists: tuple[str, ...] = ("run", "server", "webrtc", "dev")
    macos: str = ""


PLATFORMS: Final = (
    TargetPlatform("Linux x86-64, glibc 2.28", "x86_64-manylinux_2_28"),
    TargetPlatform("Linux arm64, glibc 2.28", "aarch64-manylinux_2_28"),
    # PyAV, which utcp-gateway-webrtc needs, has wheels for macOS 14 and later only.
    TargetPlatform("macOS 13 arm64", "aarch64-apple-darwin", ("run", "server"), macos="13.0"),
    TargetPlatform("macOS 14 arm64", "aarch64-apple-darwin", macos="14.0"),
)


@dataclass(frozen=True, slots=True)
class Check:
    """One locked list on one platform with one version of Python."""

    target: TargetPlatform
    python: str
    list: str


def checks() -> list[Check]:
    """Return all combinations of platform, Python and list."""
    return [
        Check(target, python, name) for target in PLATFORMS for python in PYTHONS for name in target.lists
    ]


def missing_wheels(uv: str, check: Check, folder: Path) -> list[str]:
    """Return the packages of a list without a wheel; raise RuntimeError for another error of the resolver."""
    text = (REQUIREMENTS / f"{check.list}.txt").read_text(encoding="utf-8")
    missing: list[str] = []
    while len(missing) < _MAX_MISSING:
        error = _resolve(uv, check, text, folder)
        if not error:
            return missing
        found = _MISSING.search(error)
        if found is None:
            raise RuntimeError(f"{check.target.name}, Python {check.python}, {check.list}.txt: {error}")
        missing.append(found[1])
        text = _without(text, found[1])
    return missing


def _resolve(uv: str, check: Check, requirements: str, folder: Path) -> str:
    """Return the error of the resolver, "" where each package has a wheel."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", dir=folder) as listed:
        listed.write(requirements)
        listed.flush()
        command = [
            *(uv, "pip", "install", "--dry-run", "--quiet", "--no-deps", "--require-hashes"),
            *("--only-binary", ":all:", "--python-platform", check.target.tag),
            *("--python-version", check.python, "--target", str(folder / "target"), "-r", listed.name),
        ]
        environment = dict(os.environ)
        if check.target.macos:
            environment["MACOSX_DEPLOYMENT_TARGET"] = check.target.macos
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    return ran.stderr.strip() if ran.returncode else ""


def _without(requirements: str, package: str) -> str:
    entries = re.split(r"\n(?=\S)", requirements)
    return "\n".join(entry for entry in entries if not entry.startswith(f"{package}=="))


def table(results: dict[Check, list[str]]) -> Iterator[str]:
    """Yield the lines of a table: a row for each platform and Python, a column for each list."""
    yield f"{'platform':<26}{'Python':<8}{'run.txt':<12}{'server.txt':<12}{'webrtc.txt':<12}dev.txt"
    for target in PLATFORMS:
        for python in PYTHONS:
            cells = []
            for name in ("run", "server", "webrtc", "dev"):
                missing = results.get(Check(target, python, name))
                cells.append("-" if missing is None else "no " + ", ".join(missing) if missing else "wheels")
            yield f"{target.name:<26}{python:<8}{cells[0]:<12}{cells[1]:<12}{cells[2]:<12}{cells[3]}"


def main(arguments: list[str]) -> int:
    """Print the table; return 1 where a wheel is missing. `arguments` is the path of uv."""
    (uv,) = arguments
    listed = checks()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda check: missing_wheels(uv, check, Path(folder)), listed)
        results = dict(zip(listed, found, strict=True))
    sys.stdout.write("\n".join(table(results)) + "\n")
    return 1 if any(results.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

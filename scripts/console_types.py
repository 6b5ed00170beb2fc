"""`python -m scripts.console_types`: check the types (tsc) and format (Prettier) of the console's scripts.

The packages are in .venvs/console-scripts; without them nothing is checked, and a line says so. `--install`
installs them (npm needed), `--write` formats the files. The gateway itself needs no Node.js.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "app" / "console" / "static" / "js"
FOLDER = ROOT / ".venvs" / "console-scripts"
PACKAGES = ("typescript@5.9.3", "prettier@3.10.1")
_TYPES = (
    "--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2023", "--module", "esnext",
    "--moduleResolution", "bundler", "--moduleDetection", "force", "--skipLibCheck",
    "--lib", "es2023,dom,dom.iterable",
)  # fmt: skip
_FORMAT = ("--print-width", "140", "--log-level", "warn")
_SECONDS = 300


def _program(name: str) -> Path:
    return FOLDER / "node_modules" / ".bin" / name


def install() -> None:
    """Install the packages where they are not there. Raises SystemExit."""
    if _program("tsc").exists() and _program("prettier").exists():
        return
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is not installed")
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [
        npm,
        "install",
        "--loglevel",
        "error",
        "--no-fund",
        "--no-audit",
        "--prefix",
        str(FOLDER),
        *PACKAGES,
    ]
    subprocess.run(command, check=True, timeout=_SECONDS)  # noqa: S603


def check(*, write: bool = False) -> int:
    """Check all scripts, or format them first; return the exit code."""
    files = [str(path) for path in sorted(SCRIPTS.glob("*.js"))]
    formatting = [str(_program("prettier")), *_FORMAT, "--write" if write else "--check", *files]
    commands = (formatting, [str(_program("tsc")), *_TYPES, *files])
    codes = [
        subprocess.run(command, cwd=ROOT, check=False, timeout=_SECONDS).returncode  # noqa: S603
        for command in commands
    ]
    return max(codes)


def main() -> int:
    """Check; 0 where the packages are missing."""
    parser = argparse.ArgumentParser(prog="python -m scripts.console_types", description=__doc__)
    parser.add_argument("--install", action="store_true", help="install the packages first")
    parser.add_argument("--write", action="store_true", help="format the files")
    options = parser.parse_args()
    if options.install:
        install()
    elif not _program("tsc").exists() or shutil.which("node") is None:
        sys.stdout.write(
            "The scripts of the console are not checked: make console-types installs what that needs.\n"
        )
        return 0
    return check(write=options.write)


if __name__ == "__main__":
    sys.exit(main())

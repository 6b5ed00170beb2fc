"""Each release has its contract, its revision and its rows; none is left out, and none is ahead of the project."""

import json
import re
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from scripts.contract_difference import RELEASES, ROOT, parse_version, project_version
from scripts.release import DATA, head_revision, main, revisions


def versions_of(paths: list[Path]) -> set[str]:
    return {path.stem if path.is_file() else path.name for path in paths}


def test_every_release_has_a_contract_a_revision_and_rows() -> None:
    contracts = versions_of(list(RELEASES.glob("*.json")))
    folders = versions_of([path.parent for path in DATA.glob("*/data.sql")])
    assert contracts
    assert contracts == folders == set(revisions()), "make release VERSION=..."
    for version in contracts:
        assert all((DATA / version / name).is_file() for name in ("expected.json", "names.json"))


@pytest.mark.parametrize("version", list(revisions()))
def test_a_release_is_what_its_files_say(version: str) -> None:
    assert parse_version(version) <= parse_version(project_version())
    assert json.loads((RELEASES / f"{version}.json").read_bytes())["info"]["version"] == version
    known = {one.revision for one in ScriptDirectory(str(ROOT / "migrations")).walk_revisions()}
    assert revisions()[version] in known
    first, *rows = (DATA / version / "data.sql").read_text(encoding="utf-8").splitlines()
    assert (
        first
        == f"-- Rows of release {version} at revision {revisions()[version]}, written by `make release-data`."
    )
    assert rows[0].startswith("TRUNCATE ")
    assert sum(row.startswith("INSERT INTO ") for row in rows) > 50


def test_the_rows_of_a_release_are_of_every_kind() -> None:
    for version in revisions():
        text = (DATA / version / "data.sql").read_text(encoding="utf-8")
        tables = set(re.findall(r'^INSERT INTO "(\w+)"', text, re.MULTILINE))
        assert tables >= {
            "providers", "sources", "revisions", "tools", "overrides", "retained_overrides", "credentials", "variables",
            "keys", "idempotency_keys", "calls", "call_stats", "events", "changes", "imports", "data_keys",
        }  # fmt: skip
        assert '"pending"' in text or "'pending'" in text


def test_the_migrations_have_one_head() -> None:
    assert head_revision()


def test_another_version_than_the_projects_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["99.0.0"]) == 2
    assert "pyproject.toml has version" in capsys.readouterr().err

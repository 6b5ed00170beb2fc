"""Write what a release leaves for those after it (`make release`, `release-contract`, `release-data`).

- `openapi/releases/VERSION.json`: its contract, with which later ones are compared;
- `tests/releases/VERSION/names.json`: names of settings, commands, problem types, scopes and metrics;
- `migrations/releases.json`: the Alembic revision of its database;
- `tests/releases/VERSION/data.sql`: rows that its gateway stored, which later versions must be able to serve.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from alembic.script import ScriptDirectory

from app.core.settings import Settings
from app.main import create_app
from scripts.contract_difference import CONTRACT, DATA, RELEASES, ROOT, parse_version, project_version
from scripts.names import current_names
from scripts.release_data import write_release_data

REVISIONS: Final = ROOT / "migrations" / "releases.json"


def revisions() -> dict[str, str]:
    """Return the Alembic revision of each release, oldest first."""
    listed: dict[str, str] = json.loads(REVISIONS.read_text(encoding="utf-8")) if REVISIONS.exists() else {}
    return dict(sorted(listed.items(), key=lambda item: parse_version(item[0])))


def head_revision() -> str:
    """Return the newest Alembic revision of this checkout; raise ValueError where there are several."""
    heads = ScriptDirectory(str(ROOT / "migrations")).get_heads()
    if len(heads) != 1:
        raise ValueError(f"The migrations have {len(heads)} heads: {', '.join(heads)}.")
    return heads[0]


def write_contract(version: str) -> Path:
    """Write the contract and the names of a release; raise ValueError where gateway.json is out of date."""
    stored = json.loads(CONTRACT.read_bytes())
    if stored != json.loads(json.dumps(create_app(Settings(_env_file=None)).openapi())):
        raise ValueError("openapi/gateway.json is not what the gateway serves: make contract")
    if stored["info"]["version"] != version:
        raise ValueError(f"The contract is that of version {stored['info']['version']}: make contract")
    RELEASES.mkdir(exist_ok=True)
    path = RELEASES / f"{version}.json"
    path.write_bytes(CONTRACT.read_bytes())
    names = DATA / version / "names.json"
    names.parent.mkdir(parents=True, exist_ok=True)
    names.write_text(json.dumps(current_names(), indent=1) + "\n", encoding="utf-8")
    return path


def write_data(version: str) -> Path:
    """Write the revision and the rows of a release."""
    revision = head_revision()
    write_release_data(DATA / version, version=version, revision=revision)
    listed = {**revisions(), version: revision}
    REVISIONS.write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    return DATA / version


def main(arguments: list[str]) -> int:
    """Write the parts that are named, all without names; return 2 where the version is not the project's."""
    parser = argparse.ArgumentParser(prog="python -m scripts.release", description=__doc__)
    parser.add_argument("version", help="the version in pyproject.toml, such as 0.2.0")
    parser.add_argument("--only", choices=("contract", "data"), help="write one part")
    given = parser.parse_args(arguments)
    if given.version != project_version():
        sys.stderr.write(f"pyproject.toml has version {project_version()}, not {given.version}.\n")
        return 2
    writers = {"contract": write_contract, "data": write_data}
    for name in [given.only] if given.only else list(writers):
        sys.stdout.write(f"Wrote {writers[name](given.version).relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

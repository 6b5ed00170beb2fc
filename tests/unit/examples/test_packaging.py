"""The examples are in a checkout and not in the wheel."""

import subprocess
import sys
import zipfile
from pathlib import Path

from app.cli.sample import find_checkout

ROOT = Path(__file__).parents[3]


def test_wheel_has_no_examples_and_its_code_finds_none(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True)
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    assert "app/main.py" in names
    page = {"page.html", "assets/docs.css", "assets/docs.js", "assets/icon.svg"}
    assert {f"app/server/docs_page/{file}" for file in page} < set(names)
    assert "app/server/openapi_examples.json" in names
    protos = {path.relative_to(ROOT).as_posix() for path in (ROOT / "app/formats/ubp/proto").rglob("*.proto")}
    assert protos
    assert protos < set(names)
    assert not [name for name in names if "examples" in name.split("/")]
    code = "from app.cli.sample import find_checkout; print(find_checkout())"
    environment = {"PYTHONPATH": str(tmp_path / "site")}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, check=True
    )
    assert ran.stdout == b"None\n"


def test_checkout_is_the_folder_of_the_sources() -> None:
    assert find_checkout() == ROOT

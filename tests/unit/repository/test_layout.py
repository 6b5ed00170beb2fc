"""tests/unit mirrors the repository: a folder has the name of what it tests."""

from pathlib import Path

ROOT = Path(__file__).parents[3]
# What is tested beside the packages of app/: `repository` is the source itself, `harness` is tests/harness.
OTHER = {"benchmarks", "deployment", "examples", "harness", "packages", "repository"}


def test_folders_of_unit_tests_are_packages_of_the_application():
    unit = ROOT / "tests" / "unit"
    folders = {file.parent.relative_to(unit) for file in unit.rglob("test_*.py")}
    tested = {folder for folder in folders if folder.parts and folder.parts[0] not in OTHER}
    assert "calls" in map(str, tested)
    assert [str(folder) for folder in tested if not (ROOT / "app" / folder).is_dir()] == []

"""The documentation holds together: links lead somewhere, decision records have one format."""

import re
import tomllib
from pathlib import Path

from tests.harness.cases import for_each

ROOT = Path(__file__).parents[3]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "changelog.d" / "README.md",
    *sorted((ROOT / "packages").glob("*/README.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
]
DECISION_INDEX = ROOT / "docs" / "decisions" / "README.md"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
GUIDES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "packages").glob("*/README.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
_DECISION = re.compile(
    r"# (?P<number>\d+)\. [^\n]+\n\nStatus: (accepted|superseded)[^\n]*\nDate: \d{4}-\d\d-\d\d\n\n## Context\n\n.+?\n## Decision\n\n.+",
    re.DOTALL,
)
# A path of this checkout, as `app/calls/retries.py` or `app/core/settings/`; not within a URL, and without <placeholders>.
_PATH = re.compile(
    r"(?<![\w/.<-])(?:app|tests|examples|benchmarks|scripts|migrations|deploy|requirements|openapi|packages)/[\w./*-]*[\w/](?![\w<{])"
)
_MODULE = re.compile(r"(?<![\w/.])app(?:\.[a-z_][a-z0-9_]*)+\b(?!\()")


def is_path(name):
    """Whether a file or folder of this name is in the checkout; `*` stands for any part of a name."""
    return any(ROOT.glob(name.rstrip("/")))


def is_module(name):
    """Whether `app.x.y` is a module, or a name that a module defines, imports or calls so."""
    path = ROOT.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    *parent, last = name.split(".")
    folder = ROOT.joinpath(*parent)
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return file.is_file() and re.search(rf"\b{last}\b", file.read_text()) is not None


@for_each("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files(page):
    missing = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


@for_each("page", DECISIONS, ids=lambda page: page.stem)
def test_decision_record_has_status_date_context_and_decision(page):
    match = _DECISION.fullmatch(page.read_text())
    assert match is not None
    assert int(match["number"]) == int(page.name[:4])


def test_decision_records_are_numbered_without_gaps():
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_the_index_of_decisions_has_each_record_once_and_says_what_is_superseded():
    index = (ROOT / "docs" / "decisions" / "README.md").read_text().splitlines()
    lines = {
        page.name: [line for line in index if line.startswith("- ") and f"]({page.name})" in line]
        for page in DECISIONS
    }
    superseded = re.compile(r"^Status: .*superseded by", re.MULTILINE)
    unmarked = [
        name
        for name, found in lines.items()
        if len(found) != 1
        or (
            superseded.search((ROOT / "docs" / "decisions" / name).read_text())
            and "superseded by" not in found[0]
        )
    ]
    assert unmarked == []


def test_readme_has_at_most_220_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 220


@for_each("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_and_modules_named_in_the_documentation_exist(page):
    text = page.read_text()
    assert [name for name in _PATH.findall(text) if not is_path(name)] == []
    assert [name for name in _MODULE.findall(text) if not is_module(name)] == []


def test_architecture_has_the_layers_of_the_import_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(
        [re.findall(r"\w+", layer) for layer in contract["layers"]]
        for contract in contracts
        if contract["containers"] == ["app"]
    )
    text = ARCHITECTURE.read_text()
    table = text.split("| layer, top first |")[1].split("\n\n")[0]
    assert [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()[2:]] == layers
    boxes = re.findall(r'\["(.+?)"\]', text.split("```mermaid")[1].split("```")[0])
    lines = [line for box in boxes for line in box.split("<br/>") if not line.startswith("<b>")]
    assert [re.findall(r"\w+", line) for line in lines] == layers


@for_each("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_named_in_the_documentation_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^|\n)make ([a-z][a-z-]*)", page.read_text()))
    assert named - targets == set()


GENERATED = {"CHANGELOG.md", "access.md", "configuration.md", "errors.md"}
"""Pages that programs write, with lines of their own."""
_MAX_COLUMNS = 110


def list_prose(text):
    """Yield number and text of the lines that are no code, table, heading, list of links or comment, and
    not written by a program."""
    fence = ""
    is_generated = False
    for number, line in enumerate(text.splitlines(), 1):
        start = line.strip()
        if start.startswith(("<!-- written by", "<!-- end of what")):
            is_generated = start.startswith("<!-- written by")
        if is_generated:
            continue
        if fence or start.startswith(("```", "~~~")):
            fence = "" if fence and start.startswith(fence) else fence or start[:3]
        elif not line.startswith("    ") and not start.startswith(("|", "#", "<", "Status:", "[")):
            yield number, line


def test_prose_wraps_at_110_columns():
    pages = [page for page in PAGES if page.name not in GENERATED and page != DECISION_INDEX]
    long = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in pages
        for number, line in list_prose(page.read_text())
        # A word alone, such as a link, cannot be broken.
        if len(line) > _MAX_COLUMNS and " " in line.strip(" -*")[: _MAX_COLUMNS - 8]
    ]
    assert long == []

"""`make test-changed`: which tests a change selects, and what it says about the others."""

import subprocess

import pytest

from tests.harness.changed_tests import (
    Packages,
    find_ground,
    find_users,
    list_changed_files,
    list_own_tests,
    read_packages,
    read_uses,
    select_tests,
)
from tests.harness.selection import ROOT, list_test_files

USES = {
    "tests/conftest.py": ["tests/harness/servers.py"],
    "tests/harness/servers.py": [],
    "tests/harness/upstream.py": [],
    "tests/api/tools/conftest.py": ["tests/harness/upstream.py"],
    "tests/api/tools/test_call.py": ["tests/api/tools/conftest.py", "tests/conftest.py"],
    "tests/api/agents/mcp/test_streams.py": ["tests/api/tools/conftest.py", "tests/conftest.py"],
    "tests/integration/calls/test_execute.py": ["tests/conftest.py"],
}
PACKAGES = Packages(
    importers={"calls": frozenset({"agents.call"}), "core.errors": frozenset({"calls", "api.keys"})},
    ground=frozenset({"core", "storage"}),
)


@pytest.fixture
def repository(tmp_path):
    """A repository with the branch `main` and a branch of it, on which `git(...)` runs commands."""

    def git(*arguments):
        identity = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch=main")
    for name in ("old.py", "edited.py", "deleted.py"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("*.log\n")
    git("add", ".")
    git("commit", "-m", "first")
    git("checkout", "-b", "mine")
    return tmp_path, git


def test_committed_staged_edited_deleted_and_untracked_files_are_changed(repository):
    root, git = repository
    for name in ("committed.py", "staged.py", "untracked.py", "ignored.log"):
        (root / name).write_text(name)
        if name == "committed.py":
            git("add", name)
            git("commit", "-m", "second")
    git("add", "staged.py")
    (root / "edited.py").write_text("edited")
    (root / "deleted.py").unlink()
    _, changed = list_changed_files(root)
    assert changed == ["committed.py", "deleted.py", "edited.py", "staged.py", "untracked.py"]
    assert "committed.py" not in list_changed_files(root, "HEAD")[1]


def test_what_came_to_main_meanwhile_is_not_changed(repository):
    root, git = repository
    git("checkout", "main")
    (root / "others.py").write_text("others")
    git("add", ".")
    git("commit", "-m", "others")
    git("checkout", "mine")
    assert list_changed_files(root)[1] == []


def test_without_a_branch_main_uncommitted_files_alone_are_changed(repository):
    root, git = repository
    (root / "committed.py").write_text("committed")
    git("add", ".")
    git("commit", "-m", "second")
    git("branch", "-D", "main")
    (root / "edited.py").write_text("edited")
    assert list_changed_files(root)[1] == ["edited.py"]


def test_ground_is_the_layer_of_formats_and_those_below():
    layers = ["cli", "calls | search", "formats", "storage | security", "core"]
    assert find_ground(layers) == {"formats", "storage", "security", "core"}


def test_the_packages_are_those_of_the_import_graph():
    packages = read_packages(ROOT)
    assert packages.ground == {"formats", "storage", "security", "core"}
    assert not {"calls", "outbound", "openapi"} & packages.ground
    assert "agents.call" in packages.importers["calls"]
    assert "calls" not in packages.importers["calls"]


@pytest.mark.parametrize(
    ("changed", "users"),
    [
        ("tests/api/tools/conftest.py", {"tests/api/tools/test_call.py", "tests/api/agents/mcp/test_streams.py"}),
        (
            "tests/harness/upstream.py",
            {"tests/api/tools/conftest.py", "tests/api/tools/test_call.py", "tests/api/agents/mcp/test_streams.py"},
        ),
        ("tests/harness/servers.py", set(USES) - {"tests/harness/servers.py"} - {"tests/harness/upstream.py"} - {"tests/api/tools/conftest.py"}),
        ("tests/integration/calls/data.json", {"tests/integration/calls/test_execute.py"}),
        ("tests/harness/new.py", set()),
    ],
)  # fmt: skip
def test_users_of_a_file_of_tests_are_direct_and_indirect_ones(changed, users):
    assert find_users(changed, USES) == users


def test_uses_are_imports_and_the_conftests_above():
    uses = read_uses(ROOT)
    used = uses["tests/api/agents/mcp/test_streams.py"]
    assert {"tests/api/agents/mcp/conftest.py", "tests/conftest.py", "tests/harness/mcp_requests.py"} <= used
    assert "tests/api/tools/conftest.py" in uses["tests/api/agents/mcp/conftest.py"]
    assert "tests/api/tools/conftest.py" not in used


def test_a_package_selects_its_tests_those_that_import_it_and_those_of_its_importers():
    selection = select_tests(["app/calls/plan.py"], PACKAGES, {})
    assert set(list_own_tests("calls")) | set(list_own_tests("agents.call")) <= selection.files
    assert len(selection.files) < len(list_test_files())
    assert [reason.partition(":")[0] for reason in selection.reasons] == ["app/calls"]
    assert selection.left_out == []


def test_a_ground_package_selects_its_own_tests_and_names_what_is_left_out():
    selection = select_tests(["app/core/uuid7.py", "app/core/errors.py"], PACKAGES, {})
    assert {str(path.relative_to(ROOT)) for path in selection.files} == {"tests/unit/core/test_uuid7.py"}
    assert selection.left_out == ["app/core/errors: the tests of api.keys, calls, which import it"]


def test_a_changed_test_selects_itself_and_a_helper_its_users():
    changed = ["tests/unit/core/test_uuid7.py", "tests/harness/upstream.py", "tests/interop/test_streams.py"]
    uses = {"tests/unit/formats/xml/test_reader.py": ["tests/harness/upstream.py"]} | USES
    selection = select_tests(changed, PACKAGES, uses)
    selected = {str(path.relative_to(ROOT)) for path in selection.files}
    assert "tests/unit/core/test_uuid7.py" in selected
    assert selected <= {"tests/unit/core/test_uuid7.py"} | set(uses)
    assert selection.left_out == ["tests/interop/test_streams.py: no test of make test uses it"]


def test_a_folder_beside_the_application_selects_the_tests_of_its_name():
    selection = select_tests(["migrations/env.py", "README.md"], PACKAGES, {})
    assert selection.files == set(list_own_tests("migrations"))
    assert selection.left_out == ["README.md: no tests of its name"]


def test_the_suite_of_the_protocols_is_that_of_their_package():
    assert ROOT / "tests" / "protocols" / "test_http.py" in list_own_tests("protocols")

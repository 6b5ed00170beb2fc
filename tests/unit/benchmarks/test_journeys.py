"""What `make journeys` counts, on small examples."""

import ast
import sys

from app.core.text import pointer
from benchmarks.journey_probe import Recorder, recording
from benchmarks.journeys import Journey, deciding_files, wirings
from tests.harness.names import find_shared_class_names


def trees(**files: str) -> dict[str, ast.Module]:
    return {f"{name}.py": ast.parse(text) for name, text in files.items()}


def test_journey_counts_functions_files_packages_and_changes():
    here = (("server/a.py", "one"), ("text.py", "two"), ("server/b.py", "three"), ("calls/c.py", "four"))
    child = (("openapi/d.py", "main"), ("server/a.py", "one"))
    journey = Journey((here, child))
    assert (len(journey.functions), len(journey.files)) == (5, 5)
    assert journey.packages == {"server", "calls", "openapi"}
    assert journey.changes == 2


def test_recorder_counts_each_function_of_the_project_once_and_only_within_the_journey():
    recorder = Recorder()
    sys.setprofile(recorder.profile)
    try:
        pointer("", "before")
        token = recording.set(True)
        pointer("", "a")
        pointer("", "b")
        recording.reset(token)
    finally:
        sys.setprofile(None)
    assert [*recorder.functions] == [("core/text.py", "pointer")]


def test_recorder_ends_with_the_function_that_ends_the_journey():
    recorder = Recorder(everything=True, last=pointer.__code__)
    sys.setprofile(recorder.profile)
    try:
        pointer("", "a")
        Recorder()
    finally:
        sys.setprofile(None)
    assert [*recorder.functions] == [("core/text.py", "pointer")]


def test_class_names_count_across_files():
    found = trees(a="class Body: ...\nclass Other: ...", b="def f():\n    class Body: ...")
    assert [*find_shared_class_names(found)] == ["Body"]


def test_files_that_list_or_compare_protocols_decide_by_name():
    found = trees(
        lists="LOCAL = {'cli', 'file'}",
        compares="x = protocol_of(template) == 'http'",
        scheme="x = url.scheme == 'http'",
        says="text = 'cli'",
    )
    assert deciding_files(found) == ["compares.py", "lists.py"]


def test_file_that_builds_several_long_lived_parts_is_a_wiring():
    found = trees(root="Engine(guard)\nChangeFeed(database)\nCatalog(load)", one="Engine(guard)")
    assert wirings(found) == ["root.py"]

"""Names that say too little are counted, and their number only falls."""

from tests.harness.names import ROOT, count_names, read_ceilings


def test_names_that_say_too_little_become_fewer():
    counts = {kind: len(places) for kind, places in count_names(ROOT / "app").items()}
    assert counts == read_ceilings(), (
        "python -m tests.harness.names --list names them; tests/names.toml has the ceilings"
    )


def test_functions_without_a_verb_vague_values_and_shared_class_names_are_found(tmp_path):
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "planted.py").write_text(
        "def _converted(one):\n    found = [at for at in one]\n    return found\n\n\n"
        "class Tool:\n    @property\n    def name(self):\n        return ''\n\n    def rows(self):\n        return []\n\n"
        "    def is_stored(self):\n        return True\n\n    @classmethod\n    def of(cls, text):\n        return cls()\n"
    )
    (folder / "second.py").write_text("class Tool: ...\n")
    assert count_names(folder) == {
        "functions": ["app/planted.py:1 _converted", "app/planted.py:11 rows"],
        "values": ["app/planted.py:1 one", "app/planted.py:2 found"],
        "classes": ["app/second.py:1 Tool, and app/planted.py:6 Tool"],
    }

"""Forms and schemas that are made to take time or memory: what is made of them is counted, not timed."""

import tracemalloc

import pytest

from app.console.forms.schema_form import parse
from app.console.forms.schema_form.controls import Unreadable, read_json
from app.console.views.tool_inputs import input_rows


def test_a_name_of_many_levels_takes_no_memory() -> None:
    tracemalloc.start()
    found = parse(
        [("/" * 20_000, "x"), ("/a", "y")], {"type": "object", "properties": {"a": {"type": "string"}}}
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.value == {"a": "y"}
    assert peak < 5_000_000


def test_json_is_as_deep_as_can_be_written() -> None:
    assert read_json("[" * 190 + "]" * 190)
    for text in ("[" * 250 + "]" * 250, '{"a":' * 250 + "1" + "}" * 250, "[" * 100_000):
        with pytest.raises(Unreadable) as raised:
            read_json(text)
        assert "nested too deeply" in raised.value.text(str)


class _Counted(str):
    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        _Counted.compared += 1
        return str.__eq__(self, other)  # type: ignore[no-any-return]

    __hash__ = str.__hash__


def test_required_names_are_not_compared_with_each_other() -> None:
    names = [_Counted(f"p{number}") for number in range(3_000)]
    schema = {"type": "object", "required": names, "properties": {str(one): {} for one in names}}
    assert len(input_rows(schema, str)) == 300
    assert _Counted.compared < 100_000

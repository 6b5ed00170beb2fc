"""UTCP's variables, as its 1.x client reads them."""

import pytest

from app.core.errors import InvalidInput, UnsetVariable
from app.formats.utcp.variables import find_variables, list_candidates, parse_dotenv, substitute
from tests.harness.cases import for_each

TEMPLATE = {
    "url": "https://${HOST}/x?k=$KEY.json",
    "headers": {"A": "Bearer ${KEY}", "$NOT_A_KEY": "x"},
    "list": ["$HOST", {"deep": "${b}"}],
    "schema": {"$ref": "#/$defs/X"},
    "text": "see $ref: #/$defs/Y",
    "word": "$reference",
    "number": 3,
    "default": "${VAR:-x} $ ${} $-",
}


def test_variables_are_found_once_in_order_of_appearance():
    assert find_variables(TEMPLATE) == ["HOST", "KEY", "b", "reference"]


def test_substitution_is_one_pass_and_leaves_the_rest_alone():
    values = {"HOST": "h", "KEY": "${HOST}$KEY\\1\\g<0>", "b": "", "reference": "r"}
    assert substitute(TEMPLATE, values) == {
        **TEMPLATE,
        "url": "https://h/x?k=${HOST}$KEY\\1\\g<0>.json",
        "headers": {"A": "Bearer ${HOST}$KEY\\1\\g<0>", "$NOT_A_KEY": "x"},
        "list": ["h", {"deep": ""}],
        "word": "r",
    }


def test_all_unset_variables_are_named_with_their_places():
    with pytest.raises(UnsetVariable) as caught:
        substitute(TEMPLATE, lambda name: "x" if name == "HOST" else None)
    assert caught.value.extra == {"variables": ["KEY", "b", "reference"]}
    assert [fault.pointer for fault in caught.value.errors] == ["/url", "/headers/A", "/list/1/deep", "/word"]
    assert "KEY, b, reference" in caught.value.detail


@for_each(
    ("name", "provider", "expected"),
    [
        ("KEY", "my_gw", ("my__gw_KEY", "KEY")),
        ("my__gw_KEY", "my_gw", ("my__gw_KEY", "KEY")),
        ("KEY", "my-gw", ("my__gw_KEY", "KEY")),
        ("my__gw_", "my_gw", ("my__gw_my__gw_", "my__gw_")),
        ("gw_KEY", "gw", ("gw_KEY", "KEY")),
    ],
)
def test_the_namespaced_spelling_comes_first(name, provider, expected):
    assert list_candidates(name, provider) == expected


def test_nesting_has_a_limit():
    value: object = "$A"
    for _ in range(500):
        value = [value]
    with pytest.raises(InvalidInput):
        substitute(value, {"A": "x"})


def test_a_dotenv_file():
    text = "\ufeff# comment\nexport A=1\nB='single $A # no'\nC=\"two\\nlines\"\r\nD=plain # comment\n\nE=\n"
    text += 'F=a=b\nA=2\nG="multi\nline"\nH=${A}\n'
    assert parse_dotenv(text) == {
        "A": "2",
        "B": "single $A # no",
        "C": "two\nlines",
        "D": "plain",
        "E": "",
        "F": "a=b",
        "G": "multi\nline",
        "H": "${A}",
    }


@for_each("text", ["A", "A='open", "a.b=1", "=x", "A=1\x00", "A B=secret"])
def test_a_dotenv_file_that_cannot_be_read_names_the_line_and_not_the_value(text):
    with pytest.raises(InvalidInput) as caught:
        parse_dotenv(text)
    assert "secret" not in str([fault.as_json() for fault in caught.value.errors])

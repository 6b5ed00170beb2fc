"""YAML 1.2 core schema, and the traps of 1.1."""

from typing import Any

import pytest

from app.core.errors import InvalidDocument, TooLarge
from app.formats.archive import DocumentLimits
from app.openapi import ConvertOptions
from app.openapi.conversion.convert import convert
from app.openapi.reading.yaml_load import load_yaml
from tests.harness.cases import for_each


def read(text: str, **limits: int) -> Any:
    return load_yaml(text.encode(), limits=DocumentLimits(**limits), warn=lambda _at, _detail: None)


@for_each(
    ("written", "value"),
    [
        ("NO", "NO"), ("no", "no"), ("yes", "yes"), ("on", "on"), ("y", "y"),
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("2024-01-01", "2024-01-01"), ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z"), ("1:30", "1:30"),
        ("190:20:30", "190:20:30"), ("0123", "0123"), ("-0", 0), ("12", 12), ("+12", 12), ("0o17", 15),
        ("0x1F", 31), ("0b11", "0b11"), ("1_000", "1_000"), ("3.0", 3.0), ("1e3", 1000.0), (".5", 0.5),
        ("1.", 1.0), (".inf", ".inf"), (".nan", ".nan"), ("3.0.0", "3.0.0"), ("-", "-"), ("=", "="),
        ("<<x", "<<x"), ("'12'", "12"), ('"true"', "true"), ("!!str 12", "12"),
        ("99999999999999999999", 99999999999999999999.0), ("1e999", "1e999"),
    ],
)  # fmt: skip
def test_scalars_mean_what_yaml_1_2_says(written: str, value: Any) -> None:
    read_back = read(f"a: {written}" if written != "-" else "a: '-'")["a"]
    assert read_back == value
    assert type(read_back) is type(value)


def test_keys_are_their_text() -> None:
    assert read("200: a\nnull: b\ntrue: c\n1.0: d\nNO: e\n") == {
        "200": "a", "null": "b", "true": "c", "1.0": "d", "NO": "e",
    }  # fmt: skip


def test_aliases_and_merge_keys_are_followed_and_own_keys_win() -> None:
    text = "a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\nc: *a\nd: {<<: [*a, {z: 4}]}\n"
    assert read(text) == {
        "a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 2}, "d": {"x": 1, "y": 2, "z": 4},
    }  # fmt: skip


@for_each(
    ("text", "value", "pointers"),
    [
        ("a: !mine {b: 1}\nc: 2", {"a": None, "c": 2}, ["/a"]),
        ("a: [1, !!binary aGk=, {b/c: !include x.yaml}]", {"a": [1, None, {"b/c": None}]}, ["/a/1", "/a/2/b~1c"]),
        ("a: !mine {b: !other {c: 1}, d: [1]}\ne: [!mine [2], 3]", {"a": None, "e": [None, 3]}, ["/a", "/a/b", "/e/0"]),
        ("a: &a !mine {b: 1}\nc: *a\nd: {<<: *a, e: 1}", {"a": None, "c": None, "d": {"e": 1}}, ["/a"]),
        ("d: {<<: [!mine {a: 1}, {b: 2}], e: 1}", {"d": {"e": 1, "b": 2}}, ["/d/<</0"]),
        ("a: {!mine b: 1, c: 2}", {"a": {"c": 2}}, ["/a"]),
        ("a: !mine &a {b: &b {c: 1}}\nd: *b", {"a": None, "d": {"c": 1}}, ["/a"]),
        ("a: !!int '5'\nb: !!map {c: !!bool true}\nd: !!seq [!!float 1, !!null '']", {"a": 5, "b": {"c": True}, "d": [1, None]}, []),
        ("a: !!int x\nb: !!bool 1\nc: !!map []", {"a": None, "b": None, "c": None}, ["/a", "/b", "/c"]),
        ("a: ! 12\n!!str b: ! [1]", {"a": "12", "b": [1]}, []),
    ],
)  # fmt: skip
def test_a_tag_that_is_not_known_costs_its_node(text: str, value: Any, pointers: list[str]) -> None:
    warnings: list[str] = []
    found = load_yaml(
        text.encode(), limits=DocumentLimits(), warn=lambda at, _detail: warnings.append(at), drops_tags=True
    )
    assert found == value
    assert warnings == pointers


def test_a_tag_costs_no_operation_beside_it_and_the_report_has_its_pointer() -> None:
    text = (
        "openapi: 3.0.0\ninfo: {title: T, version: '1'}\nservers: [{url: https://api.example.com}]\n\t\npaths:\n"
        "  /a: {get: {operationId: a, parameters: [{name: q, in: query, schema: !mine {type: string}}]}}\n"
        "  /b: {get: !include b.yaml}\n \t \n  /c: {get: {operationId: c}}\n"
    )
    conversion = convert(text.encode(), options=ConvertOptions())
    assert [tool.name for tool in conversion.tools] == ["a", "c"]
    pointers = {warning.pointer for warning in conversion.report.warnings}
    assert {"/paths/~1a/get/parameters/0/schema", "/paths/~1b/get"} <= pointers


@for_each(
    ("text", "value"),
    [
        ("a: 1\n\t\nb: 2", {"a": 1, "b": 2}),
        ("a:\n  b: 1\n \t \n\t\t\r\n  c: 2\n\t", {"a": {"b": 1, "c": 2}}),
        ("\t\na: 1\n\t# about b\nb:\n  \t# an item\n- 1\n\t\n- 2\n", {"a": 1, "b": [1, 2]}),
        ("a: |\n  x\n  \t\n  y\n\t\nb: 1\n", {"a": "x\n\t\ny\n", "b": 1}),
        ("a: |\n  x\n\t\n  y\n", {"a": "x\n\ny\n"}),
        ("a: >-\n  x\n\n  y\n\t\nb: 1\n", {"a": "x\ny", "b": 1}),
        ("a: 'x\n\t\n  y'\n\t\nb: \"c\n \t# d\n  e\"\n", {"a": "x\ny", "b": "c # d e"}),
        ("a: x\n\t\n  y\nb: {\n\t\n\tc: 1\n\t\n}\n", {"a": "x\ny", "b": {"c": 1}}),
        (
            "a: |\n  x\u2028\u2029\u0085\u2028\n  \t\n  y\n\t\nb: 1\n",
            {"a": "x\u2028\u2029\n\u2028\n\t\ny\n", "b": 1},
        ),
        ("# \u2028#\u2028#\n\t\na: |\n  x\n  \t\n  y\n", {"a": "x\n\t\ny\n"}),
        ("\t# a\u2028b\na: 'x\u2028y\n\t\n  z'\n", {"a": "x\u2028y\nz"}),
        ("a: 1\r\t# b\r\t\rb: |\r  x\r  \t\r  y\r", {"a": 1, "b": "x\n\t\ny\n"}),
    ],
)
def test_lines_of_tabs_are_blank(text: str, value: Any) -> None:
    assert read(text) == value


def test_a_repair_before_a_line_of_tabs_is_reported_once() -> None:
    warnings: list[str] = []
    found = load_yaml(
        b'a: !mine 1\nb: "x\\0"\n\t\nc: !mine 2\n',
        limits=DocumentLimits(),
        warn=lambda at, _detail: warnings.append(at),
        drops_tags=True,
    )
    assert found == {"a": None, "b": "x", "c": None}
    assert warnings == ["/a", "", "/c"]


@for_each(
    "text",
    [
        "a: 1\na: 2",
        "a: !!python/object/apply:os.system ['id']",
        "a: !!binary aGk=",
        "!mine {a: 1}",
        "a: &a [*a]",
        "a: &a {b: *a}",
        "a: *missing",
        "? [1, 2]\n: x",
        "? {a: 1}\n: x",
        "a: &k x\n*k : y",
        "a: {<<: 7}",
        "a: 1\n---\nb: 2",
        "a: [1, 2",
        "a: b: c",
        "\tb: 1",
        "a:\n\t\n\tb: 1",
        "a: !!int x",
        "a: '\x01'",
    ],
)
def test_what_is_not_plain_data_is_rejected(text: str) -> None:
    with pytest.raises(InvalidDocument):
        read(text)


def test_refusals_name_line_and_column_and_quote_nothing() -> None:
    with pytest.raises(InvalidDocument) as refused:
        read("secret: 1\nsecret: 2\n")
    assert refused.value.detail == "The document has a mapping with the same key twice (line 2, column 1)"


def test_nesting_counts_through_aliases() -> None:
    deep = "a: &a " + "[" * 60 + "]" * 60 + "\nb: " + "[" * 60 + "*a" + "]" * 60
    with pytest.raises(InvalidDocument, match="nested deeper"):
        read(deep)


def test_an_alias_counts_as_much_as_what_it_stands_for() -> None:
    levels = "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
    with pytest.raises(TooLarge):
        read("a0: &a0 [x]\n" + levels)
    with pytest.raises(TooLarge, match="characters"):
        read(f"a: &a {'x' * 10_000}\nb: [{','.join(['*a'] * 90)}]", size=500_000)


def test_any_number_of_aliases_is_read_within_the_limit_of_nodes() -> None:
    text = f"a: &a {{k: 1}}\nb: [{','.join(['*a'] * 5_000)}]"
    assert read(text)["b"] == [{"k": 1}] * 5_000
    with pytest.raises(TooLarge, match="nodes"):
        read(text, yaml_nodes=10_000)


def test_a_document_that_repeats_itself_by_anchors_and_merges_is_read_whole() -> None:
    """The traits of Asana's description (a merge in each operation) and Langfuse's (hundreds of aliases)."""
    paths = "".join(
        f"  /things{i}:\n    get:\n      <<: *base\n      operationId: thing{i}\n      parameters: *common\n"
        for i in range(400)
    )
    text = (
        "openapi: 3.0.0\nx-base: &base\n  tags: [things]\n  responses: &ok\n    '200': {description: OK}\n"
        f"x-common: &common\n  - {{name: limit, in: query, schema: {{type: integer}}}}\npaths:\n{paths}"
    )
    conversion = convert(text.encode(), options=ConvertOptions(base_url="https://api.example.com"))
    assert conversion.report.counts.accepted == 400
    assert {tuple(made.inputs["properties"]) for made in conversion.tools} == {("limit",)}
    assert {made.tags for made in conversion.tools} == {("things",)}


def test_large_documents_are_rejected_before_they_are_parsed() -> None:
    with pytest.raises(TooLarge, match="bytes"):
        read("a: " + "x" * 100, yaml_size=50)
    with pytest.raises(TooLarge, match="nodes"):
        read("a:\n" + "- x\n" * 60, yaml_nodes=50)

"""YAML 1.2 core schema, and the traps of 1.1."""

from typing import Any

import pytest

from app.errors import InvalidDocument, TooLarge
from app.openapi import ConvertOptions, DocumentLimits, convert
from app.openapi.yaml_load import load_yaml


def read(text: str, **limits: int) -> Any:
    return load_yaml(text.encode(), limits=DocumentLimits(**limits), warn=lambda _at, _detail: None)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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

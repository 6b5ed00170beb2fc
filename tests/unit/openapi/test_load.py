"""Bytes -> raw mapping."""

import json
from typing import Any

import orjson
import pytest

from app.core.errors import InvalidDocument, TooLarge
from app.formats.archive import DocumentLimits
from app.openapi import ConvertOptions, is_openapi, sniff
from app.openapi.conversion.convert import convert
from app.openapi.reading.load import load
from tests.harness.cases import for_each

HEAD = b'{"openapi": "3.0.0", "paths": {}'


def read(content: bytes, *, media_type: str | None = None, **limits: int) -> tuple[Any, list[str]]:
    warnings: list[str] = []
    options = ConvertOptions(media_type=media_type, limits=DocumentLimits(**limits))
    raw = load(content, options=options, warn=lambda _at, detail: warnings.append(detail))
    return raw, warnings


@for_each("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@for_each("text", ['{"openapi":"3.0.0","x":"ø"}', 'openapi: "3.0.0"\nx: ø\n'])
def test_every_unicode_encoding_is_read(encoding: str, text: str) -> None:
    assert read(text.encode(encoding))[0] == {"openapi": "3.0.0", "x": "ø"}


def test_the_last_of_duplicate_keys_counts_and_is_remarked() -> None:
    raw, warnings = read(HEAD + rb', "x": 1, "a\"": {"y": ":"}, "x": 2}')
    assert raw["x"] == 2
    assert len(warnings) == 1
    assert "twice" in warnings[0]


def test_without_duplicate_keys_nothing_is_remarked() -> None:
    content = orjson.dumps({"openapi": "3.0.0", 'a"b\\': 'c": ', "d": ["e", {"": '"'}]})
    assert read(content)[1] == []


@for_each(
    ("written", "became"),
    [(rb'"a\u0000b"', "ab"), (rb'"a\ud800b"', "a?b"), (b"NaN", None), (b"-Infinity", None), (b"1e999", None)],
)
def test_what_jsonb_cannot_hold_is_taken_out_with_a_remark(written: bytes, became: Any) -> None:
    raw, warnings = read(HEAD + b', "x": [' + written + b"]}")
    assert raw["x"] == [became]
    assert warnings


def test_integers_beyond_64_bits_become_floats() -> None:
    assert read(HEAD + b', "x": 123456789012345678901234567890}')[0]["x"] == pytest.approx(
        1.2345678901234568e29
    )


def test_json_that_is_broken_says_where() -> None:
    with pytest.raises(InvalidDocument, match=r"not valid JSON \(line 2, column 1\)"):
        read(b'{"openapi":\n}', media_type="application/json")


def test_json_with_trailing_commas_is_read_as_the_yaml_that_it_is() -> None:
    assert read(b'{"openapi": "3.0.0", "x": [1,],}')[0]["x"] == [1]


@for_each("content", [b"", b"  \n", b"\x1f\x8b\x08aaaa", b"PK\x03\x04", b"[1]", b'"openapi"', b"7"])
def test_what_is_no_document_is_rejected(content: bytes) -> None:
    with pytest.raises(InvalidDocument):
        read(content)


def test_json_nested_beyond_the_limit_is_rejected() -> None:
    with pytest.raises(InvalidDocument, match="nested deeper than 100"):
        read(HEAD + b', "x": ' + b"[" * 101 + b"]" * 101 + b"}")


def test_size_and_number_of_values_are_limited() -> None:
    with pytest.raises(TooLarge):
        read(HEAD + b"}", size=10)
    with pytest.raises(TooLarge):
        read(HEAD + b', "x": [1,2,3,4,5]}', nodes=5)


@for_each(
    ("raw", "is_one"),
    [
        ({"openapi": "3.1.0"}, True),
        ({"swagger": "2.0"}, True),
        ({"openapi": 3.0}, True),
        ({"utcp_version": "1.0.1", "tools": []}, False),
        ({"openapi": {"a": 1}}, False),
        ({"openapi": "none"}, False),
        ([], False),
        (None, False),
    ],
)
def test_documents_are_distinguished_by_their_version(raw: Any, is_one: bool) -> None:
    assert is_openapi(raw) is is_one


def test_bytes_are_recognised_without_parsing() -> None:
    assert sniff(b"# api\nswagger: '2.0'\n")
    assert sniff(json.dumps({"info": {"title": "x" * 200_000}, "openapi": "3.1.0"}).encode())
    assert not sniff(b'{"utcp_version": "1.0.1", "tools": []}')


def test_a_latin_1_file_is_read_with_the_place_of_its_first_byte() -> None:
    document = '{"openapi": "3.0.0", "info": {"title":\n "Café – “x”"}, "paths": {}}'.encode("cp1252")
    conversion = convert(document)
    assert conversion.title == "Café – “x”"
    [warning] = conversion.report.warnings
    assert warning.detail == (
        "byte 0xE9 at offset 44 (line 2, column 6) is not UTF-8; the document was read as windows-1252"
    )


def test_a_byte_without_a_character_is_latin_1() -> None:
    conversion = convert(b'{"openapi": "3.0.0", "info": {"title": "\xe9\x81"}, "paths": {}}')
    assert conversion.title == "é"


def test_a_single_damaged_byte_of_utf_8_is_replaced() -> None:
    document = '{"openapi": "3.0.0", "info": {"title": "日本?"}, "paths": {}}'.encode().replace(b"?", b"\xff")
    conversion = convert(document)
    assert conversion.title == "日本\N{REPLACEMENT CHARACTER}"
    [warning] = conversion.report.warnings
    assert (
        warning.detail == "byte 0xFF at offset 46 (line 1, column 47) is not UTF-8; such bytes were replaced"
    )

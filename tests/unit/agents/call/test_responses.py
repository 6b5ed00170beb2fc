"""From an upstream's answer to what a caller takes."""

import json

import pytest

from app.agents.call.responses import _as_json
from tests.harness.cases import for_each
from tests.harness.scaling import assert_linear


@for_each(
    ("body", "media_type", "expected"),
    [
        (b"", "text/plain", ""),
        (b"plain", "", "plain"),
        (b"\xff\xfe\x00", "", {"media_type": "application/octet-stream", "base64": "//4A"}),
        (b"\xff", "text/plain; charset=nonsense", "\ufffd"),
        (b"\xff", "text/plain; charset=utf-8", "\ufffd"),
        ("é".encode("latin-1"), 'text/plain; charset="ISO-8859-1"', "é"),
        (b"\xef\xbb\xbf[1]", "application/json", [1]),
        ("[1]".encode("utf-16"), "application/json; charset=utf-16", [1]),
        (b'{"a":1}', "application/vnd.x+json", {"a": 1}),
        (b"NaN", "application/json", "NaN"),
        (b"<a/>", "application/xml", "<a/>"),
        (b"a: 1", "application/yaml", "a: 1"),
        (b"x", "application/pdf", {"media_type": "application/pdf", "base64": "eA=="}),
        (b'\x1e{"a":1}\n', "application/json-seq", '\x1e{"a":1}\n'),
        (b"\x00", "text/plain; charset=hex", "\x00"),
        ("日本".encode("shift_jis"), "text/plain; charset=Shift_JIS", "日本"),
        ("€".encode("cp1252"), "text/plain; charset=windows-1252", "€"),
        ("привет".encode("koi8-r"), "text/plain; charset=KOI8-R", "привет"),
        (b"+2AA-", "text/plain; charset=utf-7", "+2AA-"),
        (rb"\ud800", "text/plain; charset=unicode_escape", r"\ud800"),
        (b"\x00\xd8", "text/plain; charset=utf-16-le", None),
        (b"x", "text/plain; charset=iso-8859-99", "x"),
        (rb'"\ud800"', "application/json", r'"\ud800"'),
    ],
)
def test_everything_becomes_json(body, media_type, expected):
    media = media_type.partition(";")[0].strip().lower()
    made = json.loads(_as_json(body, media, media_type))
    if media_type == "text/plain; charset=utf-16-le":
        expected = {"media_type": "text/plain", "base64": "ANg="}
    assert made == expected


@pytest.mark.parametrize(
    "charset", ["punycode", "idna", "utf-7", "raw_unicode_escape", "iso-2022-jp", "gb18030"]
)
def test_decoding_of_a_charset_is_linear(charset):
    def decode(number):
        json.loads(_as_json(b"a" * number, "text/plain", f"text/plain; charset={charset}"))

    assert_linear(decode, 25_000)

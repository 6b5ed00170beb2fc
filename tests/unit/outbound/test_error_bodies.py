"""The body of an upstream's error response: readable, and without secrets in any encoding."""

import json

import orjson
import pytest

from app.outbound.error_bodies import sanitize_error_body
from app.security.masking import Masker
from tests.harness.cases import for_each
from tests.harness.scaling import assert_linear

SECRET = "ca/na+ry-\u00fc-\U0001f511-s3cr3t"


@pytest.fixture
def masker() -> Masker:
    masker = Masker()
    masker.add(SECRET)
    masker.add("12345678")
    return masker


def shown(raw: bytes, masker: Masker, media_type: str = "application/json", *, complete: bool = True):
    made = sanitize_error_body(raw, media_type, masker=masker, limit=65_536, complete=complete)
    text = orjson.dumps(made).decode()
    assert "na+ry" not in text
    assert "s3cr3t" not in text
    return made


def escaped(text: str) -> str:
    return "".join(f"\\u{unit:04X}" for unit in memoryview(text.encode("utf-16-le")).cast("H"))


@for_each(
    "spelt",
    [
        SECRET.replace("/", r"\/"),
        SECRET.replace("+", r"\u002B"),
        SECRET.replace("+", r"\u002b").replace("/", r"\/"),
        escaped(SECRET),
        json.dumps(json.dumps(SECRET))[3:-3].replace("/", r"\\/"),
        json.dumps(json.dumps(SECRET.replace("+", "PLUS"), ensure_ascii=True))[3:-3].replace(
            "PLUS", r"\\u002B"
        ),
    ],
)
def test_escapes_hide_no_secret(masker: Masker, spelt: str) -> None:
    for raw in (f'{{"you sent": "{spelt}"}}', f'["a", {{"{spelt}": 1}}]', f'"{spelt}"'):
        assert "***" in str(shown(raw.encode(), masker))
        assert "***" in shown(raw.encode() + b" trailing", masker)
        assert "***" in shown(raw.encode(), masker, complete=False)


def test_the_rest_of_the_response_stays_json(masker: Masker) -> None:
    raw = json.dumps({"detail": "a/b \u00e9", "sent": [SECRET], SECRET: None}).replace("/", r"\/").encode()
    assert shown(raw, masker) == {"detail": "a/b \u00e9", "sent": ["***"], "***": None}


def test_a_secret_that_is_a_number(masker: Masker) -> None:
    assert shown(b'{"pin": 12345678}', masker) == '{"pin": ***}'


@for_each("charset", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-8-sig"])
@for_each("said", ["", "; charset={}", "; charset=iso-8859-1", "; charset=utf-8", "; charset=punycode"])
def test_other_charsets_hide_no_secret(masker: Masker, charset: str, said: str) -> None:
    media_type = "application/json" + said.format(charset)
    assert "***" in str(shown(json.dumps({"sent": "12345678"}).encode(charset), masker, media_type))
    shown(json.dumps({"sent": SECRET}, ensure_ascii=False).encode(charset), masker, media_type)
    shown(f"you sent {SECRET}".encode(charset), masker, "text/plain" + said.format(charset))


def test_a_charset_is_honoured(masker: Masker) -> None:
    assert (
        shown("gr\u00fc\u00df".encode("latin-1"), masker, "text/plain; charset=iso-8859-1")
        == "gr\u00fc\u00df"
    )


def test_secret_cut_off_at_the_end_is_masked(masker: Masker) -> None:
    raw = b"x" * 65_530 + SECRET.encode() + b"y" * 9_000
    assert shown(raw[:70_000], masker, "text/plain", complete=False).endswith("xx***yyy [truncated]")


def test_masking_of_an_error_body_is_linear(masker: Masker) -> None:
    for number in range(1000):
        masker.add(f"secret-number-{number}/+")
    assert_linear(lambda number: shown(orjson.dumps([{"a\\/": "b\\/c"}] * number), masker), 500)

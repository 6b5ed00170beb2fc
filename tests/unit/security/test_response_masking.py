"""The secrets of a call are masked in its response; a response without them stays the same object."""

import base64
import html
import json
import re
import string
from functools import cache
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import FieldError, UpstreamErrorResponse, UpstreamRejected
from app.security.response_masking import MIN_NEEDLE, ResponseMasker, mask_error
from tests.harness.cases import for_each
from tests.harness.examples import examples

SECRET = 'cañary+/ "quoted"\\ & <more>~4711'
TOKEN = "sk-live-" + "a1B2c3D4e5F6" * 3
TEXTS = st.text(string.ascii_letters + string.digits + '+/=-_. "\\&<>é', min_size=MIN_NEEDLE, max_size=60)


def net(text: str) -> str:
    """As encoders of .NET write JSON."""
    return "".join(
        f"\\u{ord(c):04X}" if c in "\"&'+<>`" or ord(c) > 126 else json.dumps(c)[1:-1] for c in text
    )


ENCODERS = {
    "as it is": lambda text: text,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 without padding": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "base64url": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 after one byte": lambda text: base64.b64encode(b"x" + text.encode()).decode(),
    "base64 after two bytes": lambda text: base64.b64encode(b"me" + text.encode()).decode(),
    "base64 of a pair": lambda text: base64.b64encode(f"user:{text}".encode()).decode(),
    "base64 in the midst": lambda text: base64.b64encode(f'{{"key":"{text}","a":1}}'.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "query": quote_plus,
    "path": lambda text: quote(text, safe=""),
    "percent in lower case": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON within JSON": lambda text: json.dumps(json.dumps(text))[1:-1],
    "PHP's JSON": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "Go's JSON": lambda text: json.dumps(text, ensure_ascii=False)[1:-1].replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
    ".NET's JSON": net,
    "HTML": html.escape,
}  # fmt: skip


def leaks(secret: str, body: bytes) -> bool:
    """Whether any run of twelve bytes of a coded form can be read in what is left."""
    raw = secret.encode()
    aligned = [base64.b64encode(b"x" * k + raw)[4 if k else 0 : -4] for k in range(3)]
    forms = (raw, raw.hex().encode(), raw.hex().upper().encode(), *aligned)
    return any(form[at : at + 12] in body for form in forms for at in range(len(form) - 11))


@for_each("form", ENCODERS)
@for_each("secret", [SECRET, TOKEN])
def test_each_form_is_masked(secret: str, form: str) -> None:
    coded = ENCODERS[form](secret)
    body = ResponseMasker([secret]).mask(f"before {coded} after".encode())
    assert body.startswith(b"before ")
    assert body.endswith(b" after")
    assert b"***" in body
    assert not leaks(secret, body)
    assert coded.encode() not in body


@examples(50)
@given(secret=TEXTS, form=st.sampled_from(sorted(ENCODERS)), around=st.text(max_size=20))
def test_any_secret_is_masked_in_each_form(secret: str, form: str, around: str) -> None:
    coded = ENCODERS[form](secret).encode()
    body = ResponseMasker([secret]).mask(around.encode("utf-8", "replace") + b"\n" + coded + b"\n")
    assert coded not in body


@examples(50)
@given(
    secrets=st.lists(st.text("ab-+/", min_size=4, max_size=20), min_size=1, max_size=3),
    body=st.lists(st.one_of(st.text('ab-+/"', max_size=30), st.integers(0, 2)), max_size=8),
    cuts=st.lists(st.integers(0, 200), max_size=12),
)
def test_a_stream_is_masked_as_its_whole_whatever_its_pieces(secrets, body, cuts) -> None:
    masker = ResponseMasker(secrets)
    text = "".join(secrets[part % len(secrets)] if isinstance(part, int) else part for part in body).encode()
    stream = masker.stream_masker()
    at = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = [stream.feed(text[begin:end]) for begin, end in pairwise(at)]
    pieces.append(stream.flush())
    assert b"".join(pieces) == masker.mask_part(text)
    assert stream.has_masked is (b"".join(pieces) != text)


@examples(50)
@given(body=st.binary(max_size=400), cuts=st.lists(st.integers(0, 400), max_size=8))
def test_a_body_without_the_secret_stays_the_same_bytes(body: bytes, cuts) -> None:
    masker = ResponseMasker([SECRET, TOKEN, "pw1234"])
    assert masker.mask(body) is body
    assert masker.mask_json(body) is body
    stream = masker.stream_masker()
    at = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    pieces = [stream.feed(body[begin:end]) for begin, end in pairwise(at)]
    assert b"".join([*pieces, stream.flush()]) == body
    assert not stream.has_masked


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
                          lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20))  # fmt: skip
def test_a_value_without_the_secret_stays_the_same_object(value) -> None:
    assert ResponseMasker([SECRET, TOKEN]).mask_value(value) is value


def test_nothing_is_held_back_that_cannot_begin_a_secret() -> None:
    stream = ResponseMasker([TOKEN]).stream_masker()
    piece = b'data: {"delta": "Hello"}\n\n'
    assert stream.feed(piece) is piece
    assert stream.feed(b"ends with sk-li") == b"ends with "
    assert stream.feed(b"ght, not the key\n") == b"sk-light, not the key\n"


def test_at_most_a_needle_is_held_back() -> None:
    masker = ResponseMasker([TOKEN])
    for size in range(1, 200):
        stream = masker.stream_masker()
        passed = stream.feed(b"x" * size + TOKEN[:-1].encode())
        assert passed == b"x" * size
        assert stream.flush() == TOKEN[:-1].encode()


def test_a_longer_secret_that_begins_like_a_shorter_one_leaves_no_rest() -> None:
    masker = ResponseMasker(["password-1234", "password-1234567890"])
    stream = masker.stream_masker()
    assert stream.feed(b"is password-1234") + stream.feed(b"567890.") + stream.flush() == b"is ***."


@for_each(
    ("body", "masked"),
    [
        (b'{"pw": "pw1234"}', b'{"pw": "***"}'),
        (b'{"pw":"pw1234","n":"pw12345"}', b'{"pw":"***","n":"pw12345"}'),
        (b"the word pw1234 in a text", b"the word pw1234 in a text"),
        (b"pw1234\n", b"***"),
        (b'{"hex": "707731323334"}', b'{"hex": "999999999999"}'),
        (b'{"raw": "cHcxMjM0"}', b'{"raw": "***"}'),
    ],
)
def test_a_short_secret_is_masked_only_as_a_whole(body: bytes, masked: bytes) -> None:
    assert ResponseMasker(["pw1234"]).mask(body) == masked


def test_json_stays_json_where_the_secret_is_a_number() -> None:
    masker = ResponseMasker(["123456789012"])
    body = masker.mask(b'{"n": 123456789012, "s": "123456789012", "longer": -1123456789012.5}')
    assert json.loads(body) == {"n": 999999999999, "s": "999999999999", "longer": -1999999999999.5}


def test_json_with_odd_escapes_is_masked() -> None:
    escaped = "".join(f"\\u{ord(c):04x}" for c in TOKEN)
    body = b'{"a": "' + escaped.encode() + b'", "b": "\\u0041 stays"}'
    assert ResponseMasker([TOKEN]).mask_json(body) == b'{"a": "***", "b": "\\u0041 stays"}'


def test_json_with_odd_escapes_that_is_cut_off_is_masked() -> None:
    escaped = "".join(f"\\u{ord(c):04x}" for c in TOKEN).encode()
    masker = ResponseMasker([TOKEN])
    assert masker.mask_json(b'{"a": "' + escaped) == b'{"a": "***'
    assert masker.mask_json(b'{"a": "\xff' + escaped + b'"}') == b'{"a": "\xff***"}'
    assert masker.mask_json(b'{"a": "' + escaped + b"\\") == b'{"a": "***\\'


@for_each("piece", [b'\\"', b"\\\\", b"\\u0041", b'"', b'"\\', b'\\u0041"', b"\\"])
@pytest.mark.parametrize("secrets", [[TOKEN], ["éèéèéèéèéèéèéè"]], ids=["with a pre-check", "without"])
def test_json_of_nothing_but_escapes_takes_linear_time(piece: bytes, secrets: list[str]) -> None:
    """Quadratic, each of these took hours: then the suite's time limit ends it."""
    body = b'"\\u0041' + piece * (600_000 // len(piece))
    masker = ResponseMasker(secrets)
    assert masker.mask_json(body) is body
    assert masker.mask_strings(body) is body


def escapes(character: str) -> st.SearchStrategy[str]:
    """The ways in which a character may stand in a JSON string."""
    ways = [json.dumps(character)[1:-1], f"\\u{ord(character):04x}", f"\\u{ord(character):04X}"]
    if character not in '"\\':
        ways.append(character)
    return st.sampled_from(ways + ["\\/"] * (character == "/"))


@cache
def masker_of(*secrets: str) -> ResponseMasker:
    """Made once: that takes longer than its use."""
    return ResponseMasker(secrets)


JSON_SECRETS = (
    TOKEN, SECRET, "pw1234", "a/b+c/d", "\\u0041bcdefghijk", 'x"y\\z"q/w<e>r', "éèéèéèéèéèéèéè", "12345", "base64/with/slash==",
)  # fmt: skip


@st.composite
def escaped_json(draw: st.DrawFn, secrets: list[str]) -> bytes:
    """Texts with secrets, or parts of them, in any escapes; sometimes no JSON."""
    parts = draw(
        st.lists(st.one_of(st.sampled_from(secrets), st.text('ab\\"/u0041<&é', max_size=6)), max_size=4)
    )
    out = []
    for part in parts:
        text = part[draw(st.integers(0, 1)) :]
        out.append("".join(draw(escapes(character)) for character in text))
        out.append(draw(st.sampled_from(["", "", '", "', "\\", '"', "\\\\", "\\u0026"])))
    coded = base64.b64encode(secrets[0].encode()).decode().replace("/", "\\/").replace("=", "\\u003d")
    end = draw(st.sampled_from(['"]', coded + '"]', "", '\\"', "\\"]))
    return ('["' + "".join(out) + end).encode()


@examples(80)
@given(data=st.data(), secrets=st.lists(st.sampled_from(JSON_SECRETS), min_size=1, max_size=2, unique=True))
def test_the_check_before_the_escapes_changes_no_result(data: st.DataObject, secrets: list[str]) -> None:
    masker = masker_of(*secrets)
    body = b'["\\u0026",' + data.draw(escaped_json(secrets))
    assert masker.mask_json(body) == masker.mask_strings(masker.mask(body))


@examples(50)
@given(secret=st.sampled_from(JSON_SECRETS), data=st.data())
def test_a_string_in_any_escapes_is_masked(secret: str, data: st.DataObject) -> None:
    coded = "".join(data.draw(escapes(character)) for character in secret)
    body = masker_of(secret).mask_json(f'["\\u0026", "{coded}"]'.encode())
    assert json.loads(body) == ["&", "***"]


def test_what_go_and_dotnet_escape_needs_no_look_into_each_string() -> None:
    body = b'{"url": "https://a.example/?a=1\\u0026b=2", "tag": "\\u003cb\\u003e"}'
    looked_into: list[bytes] = []

    class Counting(ResponseMasker):
        def mask_strings(self, body: bytes) -> bytes:
            looked_into.append(body)
            return super().mask_strings(body)

    masker = Counting([TOKEN, SECRET, "pw1234"])
    assert masker.mask_json(body) is body
    assert looked_into == []
    hidden = body.replace(b"a.example", TOKEN.replace("-", "\\u002d").encode())
    assert b"***" in masker.mask_json(hidden)
    assert looked_into == [hidden]


@for_each(
    ("secret", "body", "masked"),
    [
        ("1234", b"1234", b'"***"'),
        ("1234", b" 1234\n", b'"***"'),
        ("true", b"true", b'"***"'),
        ("pw1234", b'"pw1234"', b'"***"'),
        ("pw1234", b"pw1234", b"***"),
    ],
)
def test_json_that_is_a_short_secret_stays_json(secret: str, body: bytes, masked: bytes) -> None:
    assert ResponseMasker([secret]).mask_json(body) == masked


@for_each("declared", ["utf-16", "utf-32-le", "latin-1", "iso-8859-12", "cp037"])
def test_a_declared_charset_that_the_body_does_not_have(declared: str) -> None:
    masker = ResponseMasker([SECRET]).in_charset(declared)
    assert masker.mask(f'{{"a": "{SECRET}"}}'.encode()) == b'{"a": "***"}'


def test_maskers_that_are_made_of_others_are_made_once() -> None:
    own, credential = ResponseMasker([TOKEN]), ResponseMasker([SECRET])
    joined = own.combined_with(credential)
    assert joined.values == (TOKEN, SECRET)
    assert own.combined_with(credential) is joined
    assert own.combined_with(None) is own.combined_with(own) is own
    assert own.in_charset("utf-16") is own.in_charset("UTF_16")
    for number in range(50):
        ResponseMasker([f"another-secret-{number}"]).combined_with(credential)
    again = own.combined_with(credential)
    assert again is not joined
    assert again.values == joined.values


@for_each("charset", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_other_charsets(charset: str) -> None:
    masker = ResponseMasker([SECRET]).in_charset(charset)
    body = f'{{"a": "{SECRET}"}}'.encode(charset)
    assert masker.mask(body).decode(charset) == '{"a": "***"}'
    stream = masker.stream_masker()
    pieces = [stream.feed(body[at : at + 1]) for at in range(len(body))]
    assert b"".join([*pieces, stream.flush()]).decode(charset) == '{"a": "***"}'


def test_headers() -> None:
    masker = ResponseMasker([TOKEN, "pw1234"])
    plain = [("Link", "<https://a.example/?page=2>"), ("ETag", '"pw12345"')]
    assert masker.mask_headers(plain) is plain
    masked = masker.mask_headers([("Link", f"<https://a/?k={TOKEN}>; rel=next"), ("X-Request-Id", "pw1234")])
    assert masked == [("Link", "<https://a/?k=***>; rel=next"), ("X-Request-Id", "***")]
    assert masker.mask_headers([(f"RateLimit-{TOKEN}", "1")]) == []


def test_an_error_is_masked_in_all_its_parts() -> None:
    answer = UpstreamErrorResponse(
        409, body={"told": [TOKEN], TOKEN: 1, "n": 5}, headers={"X-Request-Id": TOKEN}
    )
    error = UpstreamRejected(f"It says {TOKEN}.", response=answer)
    error.errors = (FieldError("/a", f"not {TOKEN}"),)
    mask_error(error, ResponseMasker([TOKEN]))
    assert TOKEN not in repr((error.as_problem(), error.headers, error.response, str(error), error.args))
    assert error.response is not None
    assert error.response.body == {"told": ["***"], "***": 1, "n": 5}


def test_nothing_to_mask_is_no_masker() -> None:
    assert ResponseMasker.for_values([]) is None
    assert ResponseMasker.for_values(["", "abc"]) is None


def test_it_does_not_show_what_it_holds() -> None:
    assert TOKEN not in repr(ResponseMasker([TOKEN]))

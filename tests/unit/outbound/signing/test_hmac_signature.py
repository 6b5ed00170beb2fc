"""HMAC signatures by a recipe, verified with the standard library's hmac."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pytest
from pydantic import ValidationError

from app.formats.utcp.signature_recipe import SignatureRecipe, decode_key
from app.outbound.signing.hmac_signature import HmacSigner
from app.outbound.signing.signer import SignableRequest
from app.security.secret import Secret
from tests.harness.cases import for_each

KEY = b"k3y-of-the-hmac"
REQUEST = SignableRequest(
    "post", "https://API.example.com:443/a%20b/c?x=1&y=%C3%A4#part", [("X-Other", "1")], b"\xff{body} {nonce}"
)


def signed(request: SignableRequest = REQUEST, *, key_id: str = "", **recipe) -> dict[str, str]:
    signer = HmacSigner(SignatureRecipe(**recipe), KEY, key_id)
    made = signer.sign(request)
    assert made.url == request.url
    assert made.signature in dict(made.headers)[signer.recipe.header]
    assert {name for name, _ in made.headers} == set(signer.header_names)
    return dict(made.headers)


def mac(text: bytes, algorithm: str = "sha256") -> bytes:
    return hmac.new(KEY, text, algorithm).digest()


def test_the_default_recipe_signs_method_target_time_and_body() -> None:
    headers = signed(headers={"X-Timestamp": "{timestamp}"})
    body = hashlib.sha256(REQUEST.body or b"").hexdigest()
    text = f"POST\n/a%20b/c?x=1&y=%C3%A4\n{headers['X-Timestamp']}\n{body}"
    assert headers["X-Signature"] == mac(text.encode()).hex()
    assert abs(int(headers["X-Timestamp"]) - datetime.now(UTC).timestamp()) < 60


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
@pytest.mark.parametrize("encoding", ["hex", "base64"])
def test_algorithm_and_encodings(algorithm: str, encoding: str) -> None:
    headers = signed(
        algorithm=algorithm,
        encoding=encoding,
        body_hash_encoding="base64",
        string_to_sign="{host}|{path}|{query}|{body_hash}",
    )
    body = base64.b64encode(hashlib.new(algorithm, REQUEST.body or b"").digest()).decode()
    expected = mac(f"api.example.com|/a%20b/c|x=1&y=%C3%A4|{body}".encode(), algorithm)
    text = expected.hex() if encoding == "hex" else base64.b64encode(expected).decode()
    assert headers["X-Signature"] == text


def test_the_body_is_signed_byte_for_byte_and_is_no_template_itself() -> None:
    headers = signed(string_to_sign="{body}|{method}")
    assert headers["X-Signature"] == mac(b"\xff{body} {nonce}|POST").hex()


def test_each_request_has_a_nonce_of_its_own() -> None:
    recipe = {
        "string_to_sign": "{key_id}{nonce}",
        "header": "Authorization",
        "header_value": "HMAC {key_id}:{nonce}:{signature}",
    }
    nonces = set()
    for _ in range(3):
        scheme, _, rest = signed(key_id="id-1", **recipe)["Authorization"].partition(" ")
        key_id, nonce, signature = rest.split(":")
        assert (scheme, key_id) == ("HMAC", "id-1")
        assert signature == mac(f"id-1{nonce}".encode()).hex()
        nonces.add(nonce)
    assert len(nonces) == 3


@pytest.mark.parametrize("form", ["unix", "unix_ms", "iso8601", "http_date"])
def test_forms_of_the_timestamp(form: str) -> None:
    text = signed(timestamp_format=form, headers={"Date": "{timestamp}"})["Date"]
    match form:
        case "unix":
            at = datetime.fromtimestamp(int(text), UTC)
        case "unix_ms":
            at = datetime.fromtimestamp(int(text) / 1000, UTC)
        case "iso8601":
            at = datetime.fromisoformat(text)
        case _:
            at = parsedate_to_datetime(text)
    assert abs((datetime.now(UTC) - at).total_seconds()) < 60


@for_each(
    ("recipe", "message"),
    [
        ({"string_to_sign": "{methd}"}, "unknown placeholder {methd}"),
        ({"header_value": "{timestamp}"}, "must contain {signature}"),
        ({"header_value": "{signature}\n"}, "printable ASCII"),
        ({"header": "Content-Length"}, "cannot carry a signature"),
        ({"headers": {"Host": "{nonce}"}}, "cannot carry a signature"),
        ({"headers": {"X-Body": "{body}"}}, "unknown placeholder {body}"),
        ({"algorithm": "md5"}, "sha256"),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_rejected(recipe: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SignatureRecipe(**recipe)


def test_keys_are_text_hex_or_base64() -> None:
    assert decode_key(Secret("ä"), "text") == "ä".encode()
    assert decode_key(Secret("00ff"), "hex") == b"\x00\xff"
    assert decode_key(Secret("_-8"), "base64") == decode_key(Secret("/+8="), "base64") == b"\xff\xef"
    for encoding in ("hex", "base64"):
        with pytest.raises(ValueError, match=f"not written in {encoding}") as raised:
            decode_key(Secret("not ö encoded"), encoding)
        assert "encoded" not in str(raised.value)


def test_the_key_is_not_shown() -> None:
    assert "k3y" not in repr(HmacSigner(SignatureRecipe(), KEY, "key-id-1"))

"""A live secret is struck out in every form in which it travels."""

import base64
import json
from urllib.parse import quote, quote_plus

import pytest

from app.security.masking import MASK, URI_CHARACTERS, Masker, mask_values
from tests.harness.cases import for_each

CANARY = 'cañary+/ "quoted"\\ & more~'


@pytest.fixture
def masker() -> Masker:
    masker = Masker()
    masker.add(CANARY)
    return masker


FORMS = {
    "as it is": CANARY,
    "base64": base64.b64encode(CANARY.encode()).decode(),
    "base64url without padding": base64.urlsafe_b64encode(CANARY.encode()).decode().rstrip("="),
    "hex": CANARY.encode().hex(),
    "HEX": CANARY.encode().hex().upper(),
    "query": quote_plus(CANARY),
    "path": quote(CANARY, safe=""),
    "Location": quote(CANARY, safe=URI_CHARACTERS),
    "JSON": json.dumps(CANARY),
    "JSON in UTF-8": json.dumps(CANARY, ensure_ascii=False),
}


@for_each("form", FORMS.values(), ids=list(FORMS))
def test_each_form_is_masked(masker: Masker, form: str) -> None:
    masked = masker.mask(f"before {form} after")
    assert form.strip('"').rstrip("=") not in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert MASK in masked


@for_each("form", FORMS.values(), ids=list(FORMS))
def test_masking_without_a_registry_covers_the_same_forms(form: str) -> None:
    assert form.strip('"').rstrip("=") not in mask_values(f"x{form}x", [CANARY])


def test_bytes_that_are_no_text_stay_whole(masker: Masker) -> None:
    body = b"\xff\xfe\x00" + CANARY.encode() + b"\x80"
    assert masker.mask_bytes(body) == b"\xff\xfe\x00***\x80"


def test_a_secret_that_holds_another_leaves_no_rest() -> None:
    masker = Masker()
    masker.add("token")
    masker.add("token-with-a-tail")
    assert masker.mask("token-with-a-tail") == "***"


def test_what_is_too_short_to_be_a_secret_is_left_alone(masker: Masker) -> None:
    masker.add("")
    masker.add("abc")
    assert masker.mask("abcdef") == "abcdef"


def test_is_bounded_and_takes_back_what_is_used_again() -> None:
    masker = Masker(capacity=3)
    for number in range(5):
        masker.add(f"secret-{number}")
    assert masker.mask("secret-0 secret-4") == "secret-0 ***"
    masker.add("secret-0")
    assert masker.mask("secret-0 secret-4") == "*** ***"


def test_a_full_registry_masks_a_large_body() -> None:
    masker = Masker()
    for number in range(1024):
        masker.add(f"{number:04}-{'s3cr3t' * 4}")
    text = "plain text of an upstream, " * 2427  # 64 KiB
    masked = masker.mask(text + "0512-" + "s3cr3t" * 4)
    assert masked == text + MASK

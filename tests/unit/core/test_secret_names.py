"""The vocabulary of secrets: each word is known wherever names of secrets are looked for."""

import pytest

from app.core.secret_names import (
    is_credential_name,
    is_secret_header,
    is_secret_name,
    may_hold_secret,
    may_name_secret,
)
from app.core.telemetry.redaction import MASK, redact_field, redact_text
from app.formats.json_schema.generated_values import generate_value

WORDS = (
    *(
        "access_key",
        "api-key",
        "appkey",
        "authkey",
        "Authorization",
        "client_assertion",
        "Cookie",
        "credential",
    ),
    *(
        "hmac",
        "jwt",
        "passphrase",
        "passwd",
        "password",
        "private_key",
        "pwd",
        "secret",
        "session_id",
        "signature",
    ),
    *("subscription-key", "token"),
)
HARMLESS = ("name", "monkey", "tokens_used", "keyboard", "author", "page", "keyword", "design", "signed_at")


def test_each_word_is_a_secret_wherever_names_are_looked_at():
    def is_masked(name):
        schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
        return generate_value(schema, seed=1) == {name: MASK}

    missed = [
        (word, check.__name__)
        for word in WORDS
        for check in (is_secret_name, is_secret_header, is_credential_name, may_name_secret, is_masked)
        if not check(word)
    ]
    missed += [(word, "redact_field") for word in WORDS if redact_field(word, "s3cret", text=str) != MASK]
    assert missed == []


def test_each_word_of_the_pattern_is_masked_in_a_text():
    words = ("access_key", "api-key", "hmac", "jwt", "passphrase", "passwd", "password", "private_key", "pwd")
    texts = [f"{word}=hunter2hunter2" for word in (*words, "secret", "signature", "token")]
    assert [text for text in texts if "hunter2" in redact_text(text) or not may_hold_secret(text)] == []


def test_names_without_such_an_end_are_none():
    checks = (is_secret_name, is_secret_header, is_credential_name)
    assert [(name, check.__name__) for name in HARMLESS for check in checks if check(name)] == []


@pytest.mark.parametrize(
    ("name", "masked", "header", "credential"),
    [
        ("X-Api-Key", True, True, True),
        ("acme_api_key", True, True, False),
        ("refreshToken", True, True, True),
        ("next_page_token", True, True, False),
        ("X-CSRF-Token", True, False, False),
        ("tokens", True, False, False),
        ("database_url", True, False, False),
    ],
)
def test_the_checks_differ_where_their_uses_do(name, masked, header, credential):
    assert (is_secret_name(name), is_secret_header(name), is_credential_name(name)) == (
        masked,
        header,
        credential,
    )

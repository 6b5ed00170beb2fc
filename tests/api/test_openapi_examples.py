"""The examples of the OpenAPI document are what a gateway responds: a new recording is equal."""

import json

import pytest

from scripts.openapi_examples import TARGET, fixed, record


@pytest.mark.time_limit(300)
def test_stored_examples_are_what_a_gateway_responds(servers, tmp_path):
    found = record(servers, tmp_path)
    assert found == json.loads(TARGET.read_bytes()), "The responses have changed: make examples"


def test_times_identifiers_digests_and_secrets_are_replaced():
    text = json.dumps({
        "at": "2030-01-02T03:04:05.678Z", "id": "01957c3e-7d1a-7b3c-9f00-0123456789ab", "sha256": "f" * 64,
        "again": "01957c3e-7d1a-7b3c-9f00-0123456789ab", "duration_ms": 0.25, "secret": "s3cret",
        "last_used_at": "2030-01-02T03:04:05Z", "next_cursor": "WyItYXQiLCIwMWEyMDYxNCJd",
    })  # fmt: skip
    assert fixed(text, {"s3cret": "***"}) == {
        "at": "2026-11-22T09:00:00Z",
        "id": "019a0000-0000-7000-8000-000000000001",
        "sha256": "0123456789abcdef" * 4,
        "again": "019a0000-0000-7000-8000-000000000001",
        "duration_ms": 12.5,
        "secret": "***",
        "last_used_at": None,
        "next_cursor": "WyJuYW1lIiwiLi4uIl0",
    }

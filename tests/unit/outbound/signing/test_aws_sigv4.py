"""AWS Signature Version 4, verified with botocore."""

from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.outbound.signing.aws_sigv4 import AwsSigV4Signer
from app.outbound.signing.signer import SignableRequest, Signed
from app.security.secret import Secret
from tests.harness.cases import for_each
from tests.harness.verifiers import verify_sigv4

KEY = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
NOW = datetime(2015, 8, 30, 12, 36, 0, tzinfo=UTC)


def signer(service: str = "service", token: str | None = None) -> AwsSigV4Signer:
    session = None if token is None else Secret(token)
    return AwsSigV4Signer(KEY[0], Secret(KEY[1]), "us-east-1", service, session)


def is_verified(request: SignableRequest, signed: Signed, token: str | None = None) -> bool:
    headers = [*request.headers, ("Host", request.host), *signed.headers]
    return verify_sigv4(
        method=request.method,
        url=signed.url,
        headers=headers,
        body=request.body or b"",
        credentials=(*KEY, token),
    )


def test_the_example_of_the_documentation_has_its_signature() -> None:
    # get-vanilla-query-order-key-case of AWS's test suite for Signature Version 4.
    request = SignableRequest("GET", "https://example.amazonaws.com/?Param2=value2&Param1=value1", (), None)
    signed = signer().sign_at(request, NOW)
    assert signed.signature == "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"
    assert signed.url == "https://example.amazonaws.com/?Param1=value1&Param2=value2"


@for_each("service", ["execute-api", "s3", "dynamodb"])
@for_each(
    "url",
    [
        "https://api.example.com",
        "https://api.example.com:8443/a/b",
        "https://api.example.com/a%20b/%C3%A4?x=1&x=0&empty=&flag",
        "https://api.example.com/a:b@c,d/(e)?filter=a:b,c&q=a+b&Z=1&a=%7e%2f",
        "https://api.example.com/pr%2Fefix/key%2541",
        "https://API.example.com/?b=%E2%82%AC&b=%20&a-b=1&a=2",
    ],
)
def test_botocore_makes_the_same_signature(service: str, url: str) -> None:
    request = SignableRequest(
        "POST", url, [("Content-Type", "application/json"), ("X-Amz-Target", "A.B  c")], b'{"a": 1}'
    )
    assert is_verified(request, signer(service).sign_at(request, NOW))


@pytest.mark.parametrize("service", ["execute-api", "s3"])
def test_a_session_token_is_sent_and_signed(service: str) -> None:
    request = SignableRequest("GET", "https://api.example.com/x", (), None)
    signed = signer(service, "a-session-token/+==").sign_at(request, NOW)
    assert is_verified(request, signed, "a-session-token/+==")
    assert "x-amz-security-token" in dict(signed.headers)["Authorization"]


@pytest.mark.parametrize(
    ("sent", "changed"),
    [
        ({"body": b"a"}, {"body": b"b"}),
        ({"method": "PUT"}, {"method": "POST"}),
        ({"url": "https://api.example.com/a"}, {"url": "https://api.example.com/b"}),
        ({"headers": [("X-Amz-Meta-A", "1")]}, {"headers": [("X-Amz-Meta-A", "2")]}),
    ],
)
def test_what_was_changed_on_its_way_is_not_verified(sent: dict, changed: dict) -> None:
    plain = {"method": "PUT", "url": "https://api.example.com/a", "headers": (), "body": b"a"}
    signed = signer().sign_at(SignableRequest(**{**plain, **sent}), NOW)
    request = SignableRequest(**{**plain, **changed})
    assert not is_verified(request, Signed(request.url, signed.headers, signed.signature))


@given(
    segments=st.lists(st.text("ab/.~ %+äß:@&=", min_size=1, max_size=6), max_size=4),
    query=st.lists(
        st.tuples(st.text("ab ~+%ä&=/", min_size=1, max_size=4), st.text("ab +%ä&=/", max_size=4)), max_size=5
    ),
    service=st.sampled_from(["execute-api", "s3"]),
    body=st.binary(max_size=20),
)
def test_any_url_and_body_are_verified(segments, query, service, body) -> None:
    path = "/".join(quote(one, safe="") for one in segments if one.strip("."))
    pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query)
    url = f"https://api.example.com/{path}" + (f"?{pairs}" if pairs else "")
    request = SignableRequest("POST", url, (), body)
    assert is_verified(request, signer(service).sign_at(request, NOW))


def test_the_secret_key_is_not_shown() -> None:
    assert KEY[1] not in repr(signer(token="a-session-token"))

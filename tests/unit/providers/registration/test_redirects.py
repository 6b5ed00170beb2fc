"""Which redirects of a source are followed."""

import pytest

from app.core.errors import UpstreamError, UpstreamErrorResponse
from app.outbound.egress import EgressSettings
from app.protocols.base import Redirected
from app.providers.registration.redirects import build_template_at, find_next_address, restrict_egress
from app.security.secret import Secret
from tests.harness.cases import for_each

HOME = "https://a.example"


def follow(location, *, url=f"{HOME}/docs/openapi.json", method="GET", is_bound=False, count=1):
    response = UpstreamErrorResponse(302)
    redirect = Redirected("", response=response, method=method, url=url, location=location)
    return find_next_address(redirect, home=HOME, is_bound=is_bound, count=count)


@for_each(
    "location, address",
    [
        ("v2.json", f"{HOME}/docs/v2.json"),
        ("/v2.json#part", f"{HOME}/v2.json"),
        ("?v=2", f"{HOME}/docs/openapi.json?v=2"),
        ("//b.example/x", "https://b.example/x"),
        ("https://b.example:8443/x?a=%20b", "https://b.example:8443/x?a=%20b"),
        (" https://b.example/{id}/ü ", "https://b.example/%7Bid%7D/%C3%BC"),
        ("https://b.example/\udce4", "https://b.example/%E4"),
    ],
)
def test_the_next_address_is_relative_to_the_last_one(location, address):
    assert follow(location) == address
    if address.startswith(HOME):
        assert follow(location, is_bound=True) == address


@for_each(
    "location, options, reason",
    [
        ("http://a.example/x", {}, "leave https"),
        ("http://127.0.0.1/x", {}, "leave https"),
        ("ftp://b.example/x", {}, "no http"),
        ("file:///etc/passwd", {}, "no http"),
        ("https://user:pw@b.example/x", {}, "no http"),
        ("https://[::1/x", {}, "no http"),
        ("https://b.example/a/../b", {}, "no http"),
        ("https://b.example/" + "x" * 2_048, {}, "2048 characters"),
        ("/x", {"count": 6}, "at most 5"),
        ("/x", {"method": "POST"}, "POST"),
        ("https://b.example/x", {"is_bound": True}, HOME),
        ("https://a.example:444/x", {"is_bound": True}, HOME),
        ("https://a.example/x", {"is_bound": True, "url": "http://a.example/x"}, None),
    ],
)
def test_a_redirect_that_is_not_followed_names_its_address(location, options, reason):
    if reason is None:
        assert follow(location, **options) == location
        return
    with pytest.raises(UpstreamError) as raised:
        follow(location, **options)
    assert reason in raised.value.detail
    address = location.partition("://")[2]
    # An address that is too long is not shown at all: the beginning of a secret would not be masked.
    assert address in raised.value.detail or (len(address) > 2_000 and "b.example" not in raised.value.detail)
    assert not raised.value.retryable


def test_nothing_that_belongs_to_the_origin_of_the_source_is_sent_elsewhere():
    template = {
        "call_template_type": "http",
        "url": f"{HOME}/x",
        "headers": {"X-A": "b"},
        "http_method": "GET",
    }
    assert build_template_at(template, f"{HOME}/y", home=HOME) == {**template, "url": f"{HOME}/y"}
    other = build_template_at(template, "https://b.example/y", home=HOME)
    assert other == {"call_template_type": "http", "url": "https://b.example/y"}
    assert restrict_egress(None) is None
    key = Secret("key")
    settings = EgressSettings(ca_bundle="ca", client_certificate="c", client_key=key, unix_socket="/run/x")
    assert restrict_egress(settings) == EgressSettings(ca_bundle="ca")

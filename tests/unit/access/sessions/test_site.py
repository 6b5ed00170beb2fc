"""Which cookie a browser gets, and which requests with it are those of our own pages."""

from datetime import UTC, datetime, timedelta

import pytest

from app.access.sessions import NewSession
from app.access.sessions.cookie import delete_cookies, read_cookie, set_cookie
from app.access.sessions.site import SECURE_COOKIE, check_same_origin, site_of, site_url
from app.core.errors import CrossSiteRequest, HttpsRequired
from app.core.settings import Settings
from app.security.secret import Secret
from tests.harness.cases import for_each

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def scope(host="tools.example.com", *, scheme="https", client="198.51.100.7", **headers):
    named = {"host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    fields = [
        (name.encode(), one.encode("latin-1"))
        for name, value in named.items()
        for one in (value if isinstance(value, list) else [value])
        if one is not None
    ]
    return {"scheme": scheme, "client": (client, 4711) if client else None, "headers": fields}


def local(host="127.0.0.1:8000", client="127.0.0.1", **headers):
    return scope(host, scheme="http", client=client, **headers)


def settings(**values):
    return Settings(_env_file=None, **values)


PLAIN = settings()
PUBLIC = settings(public_base_url="https://Tools.example.com:443/gateway", root_path="/gateway")


def test_https_has_the_secure_cookie():
    site = site_of(scope(), PLAIN)

    assert (site.cookie_name, site.is_secure) == ("__Host-utcp-session", True)
    assert site.origins == {"https://tools.example.com"}


@pytest.mark.parametrize(
    ("host", "client", "name"),
    [
        ("127.0.0.1:8000", "127.0.0.1", "utcp-session-8000"),
        ("localhost:9000", "::1", "utcp-session-9000"),
        ("[::1]:8000", "::1", "utcp-session-8000"),
        ("127.0.0.1", "127.0.0.9", "utcp-session-80"),
    ],
)
def test_plain_http_on_loopback_has_a_cookie_for_its_port(host, client, name):
    site = site_of(local(host, client), PLAIN)

    assert (site.cookie_name, site.is_secure) == (name, False)
    assert site.origins == {f"http://{host}"}


@for_each(
    "request_",
    [
        scope(scheme="http"),
        scope("192.0.2.1:8000", scheme="http", client="127.0.0.1"),
        # A tunnel or a proxy, and no browser that says it is on loopback.
        local(client="198.51.100.7"),
        local(client=None),
        local(x_forwarded_for="198.51.100.7"),
        local(forwarded="for=198.51.100.7"),
        local(via="1.1 proxy"),
        local(x_forwarded_host="tools.example.com"),
        local(origin="http://tools.example.com"),
        local(client="198.51.100.7", origin="http://localhost:8000"),
        scope("127.0.0.1.example.com", scheme="http", client="127.0.0.1"),
        scope("localhost@example.com", scheme="http", client="127.0.0.1"),
        scope("127.0.0.1:8000/x", scheme="http", client="127.0.0.1"),
        scope("127.0.0.1:port", scheme="http", client="127.0.0.1"),
        scope("", scheme="http", client="127.0.0.1"),
    ],
)
def test_plain_http_elsewhere_is_rejected(request_):
    with pytest.raises(HttpsRequired):
        site_of(request_, PLAIN)


def test_a_published_port_of_a_container_is_loopback_for_the_browser():
    request = local("localhost:8000", "172.17.0.1", origin="http://localhost:8000")

    assert site_of(request, PLAIN).cookie_name == "utcp-session-8000"


def test_a_proxy_that_ends_tls_is_known_by_the_public_url():
    request = scope("127.0.0.1:8000", scheme="http", client="127.0.0.1", origin="https://tools.example.com")

    site = site_of(request, PUBLIC)

    assert site.is_secure
    assert site.origins == {"https://tools.example.com"}


def test_loopback_remains_possible_beside_a_public_url():
    site = site_of(local(origin="http://127.0.0.1:8000"), PUBLIC)

    assert not site.is_secure


OWN = {"origin": "https://tools.example.com", "sec_fetch_site": "same-origin"}


@for_each(
    "headers",
    [
        OWN,
        {"origin": "https://tools.example.com"},
        {"origin": "HTTPS://TOOLS.EXAMPLE.COM"},
        {"origin": "https://tools.example.com", "sec_fetch_site": "none"},
        {"sec_fetch_site": "same-origin"},
    ],
)
@for_each("configured", [PLAIN, PUBLIC])
def test_requests_of_our_pages_are_admitted(headers, configured):
    check_same_origin(scope(**headers), configured)


@for_each(
    "headers",
    [
        {},
        {"sec_fetch_site": "none"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": ""},
        {"origin": "null"},
        {"origin": "null", "sec_fetch_site": "same-origin"},
        {"origin": ""},
        {"origin": "https://evil.example"},
        {"origin": "https://evil.tools.example.com"},
        {"origin": "https://tools.example.com.evil.example"},
        {"origin": "https://tools.example.com:444"},
        {"origin": "http://tools.example.com"},
        {"origin": "https://tools.example.com/"},
        {"origin": "https://tools.example.com", "sec_fetch_site": "cross-site"},
        {"origin": "https://tools.example.com", "sec_fetch_site": "same-site"},
        {"origin": "https://evil.example", "sec_fetch_site": "same-origin"},
        {"origin": ["https://tools.example.com", "https://evil.example"]},
        {"origin": "https://tools.example.com", "sec_fetch_site": ["same-origin", "cross-site"]},
        {"referer": "https://tools.example.com/console"},
    ],
)
@for_each("configured", [PLAIN, PUBLIC])
def test_requests_of_other_pages_are_rejected(headers, configured):
    with pytest.raises(CrossSiteRequest):
        check_same_origin(scope(**headers), configured)


def test_two_hosts_are_rejected():
    with pytest.raises(CrossSiteRequest):
        check_same_origin(scope(["tools.example.com", "evil.example"], **OWN), PLAIN)


def test_another_port_of_loopback_is_another_origin():
    with pytest.raises(CrossSiteRequest):
        check_same_origin(local(origin="http://127.0.0.1:9999", sec_fetch_site="same-site"), PLAIN)
    with pytest.raises(CrossSiteRequest):
        check_same_origin(local(origin="http://127.0.0.1:9999"), PLAIN)


def test_a_name_that_was_rebound_to_loopback_has_no_session():
    request = local(
        "evil.example:8000",
        origin="http://evil.example:8000",
        sec_fetch_site="same-origin",
        cookie="utcp-session-8000=text",
    )

    assert read_cookie(request) is None
    with pytest.raises(HttpsRequired):
        check_same_origin(request, PLAIN)


def new_session():
    return NewSession(Secret("ugs_text"), NOW + timedelta(days=7))


def test_the_secure_cookie_has_all_attributes():
    assert set_cookie(site_of(scope(), PLAIN), new_session(), at=NOW) == (
        "__Host-utcp-session=ugs_text; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure"
    )


def test_the_cookie_of_loopback_has_all_but_secure():
    assert set_cookie(site_of(local(), PLAIN), new_session(), at=NOW) == (
        "utcp-session-8000=ugs_text; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict"
    )


@for_each(
    ("request_", "found"),
    [
        (scope(cookie="a=b; __Host-utcp-session=text; c=d"), "text"),
        (scope(cookie=["a=b", "__Host-utcp-session=text"]), "text"),
        (scope(cookie="utcp-session-8000=text"), None),
        (scope(cookie="__host-utcp-session=text"), None),
        (scope(), None),
        (scope(cookie="__Host-utcp-session=one; __Host-utcp-session=two"), None),
        (local(cookie="utcp-session-8000=text"), "text"),
        (local(cookie="utcp-session-8001=text"), None),
        (local(cookie="utcp-session-8000=one; utcp-session-8000=two; __Host-utcp-session=three"), None),
        # A proxy on the same machine that ends TLS and replaces Host.
        (local(cookie="__Host-utcp-session=text"), "text"),
        (scope(scheme="http", cookie="utcp-session-80=text"), None),
    ],
)
def test_the_cookie_is_read_by_its_exact_name(request_, found):
    assert read_cookie(request_) == found


def test_the_cookies_that_there_are_are_deleted():
    assert delete_cookies(scope()) == []
    assert delete_cookies(local(cookie=f"utcp-session-8000=x; {SECURE_COOKIE}=y; other=z")) == [
        "utcp-session-8000=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict",
        "__Host-utcp-session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure",
    ]


@for_each(
    ("request_", "configured", "url"),
    [
        (local("localhost:9000"), PLAIN, "http://localhost:9000"),
        (scope(), PLAIN, "https://tools.example.com"),
        (local(), PUBLIC, "https://Tools.example.com:443/gateway"),
        ({**local("[::1]:8000"), "root_path": "/gateway"}, PLAIN, "http://[::1]:8000/gateway"),
        # The port that a container publishes, as the client on its host reaches it.
        (local("localhost:9000", "172.17.0.1"), PLAIN, "http://localhost:9000"),
    ],
)
def test_links_begin_with_the_address_of_the_request(request_, configured, url):
    assert site_url(request_, configured) == url


@pytest.mark.parametrize(
    "request_",
    [
        scope(scheme="http"),
        scope("evil.example/path?"),
        scope("192.0.2.1:8000", scheme="http", client="127.0.0.1"),
        local(x_forwarded_for="198.51.100.7"),
    ],
)
def test_no_link_leads_to_plain_http(request_):
    with pytest.raises(HttpsRequired):
        site_url(request_, PLAIN)

"""`/docs`, `/openapi.json` and the files of the page over HTTP."""

import re

from tests.harness.gateway import serve


def directives(response):
    """Return the Content Security Policy of a response as a dictionary."""
    policy = response.headers["content-security-policy"]
    return {
        name: values.split()
        for name, _, values in (part.strip().partition(" ") for part in policy.split(";"))
    }


def test_policy_has_nothing_unsafe_and_no_other_origin(gateway):
    with gateway.client(key="") as client:
        found = directives(client.get("/docs"))
    assert found["default-src"] == found["base-uri"] == found["frame-ancestors"] == ["'none'"]
    sources = {source for name, values in found.items() if name.endswith("-src") for source in values}
    assert sources == {"'none'", "'self'"}


def test_head_has_the_headers_of_get_and_no_body(gateway):
    with gateway.client(key="") as client:
        got, head = client.get("/docs"), client.head("/docs")
    assert head.status_code == got.status_code == 200
    assert head.content == b""
    names = (
        "content-type",
        "content-length",
        "content-security-policy",
        "x-frame-options",
        "referrer-policy",
    )
    assert [head.headers[name] for name in names] == [got.headers[name] for name in names]


def test_files_of_the_page_exist_with_their_media_types(gateway):
    with gateway.client(key="") as client:
        paths = re.findall(r'(?:href|src)="(/docs/assets/[^"]+)"', client.get("/docs").text)
        types = {path: client.get(path).headers["content-type"].split(";")[0] for path in paths}
    assert types == {
        "/docs/assets/icon.svg": "image/svg+xml",
        "/docs/assets/docs.css": "text/css",
        "/docs/assets/docs.js": "text/javascript",
    }


def test_page_needs_a_key_where_the_setting_says_so(servers, tmp_path):
    with (
        serve(servers, tmp_path, DOCS_PUBLIC="false") as gateway,
        gateway.client(key="") as anonymous,
        gateway.client() as client,
    ):
        for path in ("/docs", "/openapi.json"):
            assert anonymous.get(path).status_code == 401
            assert client.get(path).status_code == 200

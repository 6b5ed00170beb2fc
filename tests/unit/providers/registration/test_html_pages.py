"""HTML pages in place of a document: they are recognised, and the URLs of documents in them are found."""

from app.providers.registration.html_pages import (
    MAX_URLS,
    build_html_page_error,
    find_configuration_script,
    find_document_urls,
    is_html,
    read_script_urls,
)
from tests.harness.cases import for_each

PAGE = "https://api.example.com/docs/"
FASTAPI = b"""<!DOCTYPE html><html><head><title>Swagger UI</title></head><body><div id="swagger-ui"></div>
<script src="https://cdn.example/swagger-ui-bundle.js"></script><script>
const ui = SwaggerUIBundle({url: '/openapi.json', "dom_id": "#swagger-ui"})</script></body></html>"""
SPRING = b"""<html><body><div id="swagger-ui"></div><script src="./swagger-initializer.js"> </script></body></html>"""
INITIALIZER = b"""window.onload = function() { window.ui = SwaggerUIBundle({
  "configUrl" : "/v3/api-docs/swagger-config", url: "https:\\/\\/api.example.com\\/v3\\/api-docs" }); };"""
REDOC = b"""<!doctype html><html><body><redoc spec-url='petstore.yaml'></redoc></body></html>"""
SCALAR = b"""<html><body><script id="api-reference" data-url="/scalar/openapi.json"></script></body></html>"""
ELEMENTS = (
    b"""<html><body><elements-api apiDescriptionUrl="https://cdn.example.com/spec.yaml" router="hash">"""
)
LINKED = b"""<html><head><link rel="service-desc alternate" href="/description"></head><body>
<a href="/about">About</a><a class='x' href="../swagger.json?v=1&amp;w=2">The document</a></body></html>"""


@for_each(
    ("page", "urls"),
    [
        (FASTAPI, ["https://api.example.com/openapi.json"]),
        (REDOC, ["https://api.example.com/docs/petstore.yaml"]),
        (SCALAR, ["https://api.example.com/scalar/openapi.json"]),
        (ELEMENTS, ["https://cdn.example.com/spec.yaml"]),
        (LINKED, ["https://api.example.com/description", "https://api.example.com/swagger.json?v=1&w=2"]),
        (b"<html><body><a href='/news'>News</a></body></html>", []),
        (
            b"<html>openapi <script>url: 'javascript:alert(1)', url: 'https://u:p@h/x', url: '\x01'</script>",
            [],
        ),
    ],
)
def test_documents_that_a_page_names_are_found(page: bytes, urls: list[str]) -> None:
    assert is_html(page)
    assert list(find_document_urls(page, url=PAGE)) == urls


def test_configuration_of_swagger_ui_stands_in_a_script_of_its_own_origin() -> None:
    assert find_document_urls(SPRING, url=PAGE) == ()
    script = find_configuration_script(SPRING, url=PAGE)
    assert script == "https://api.example.com/docs/swagger-initializer.js"
    assert read_script_urls(INITIALIZER, url=PAGE) == (
        "https://api.example.com/v3/api-docs/swagger-config",
        "https://api.example.com/v3/api-docs",
    )
    other = SPRING.replace(b"./swagger", b"https://other.example/swagger")
    assert find_configuration_script(other, url=PAGE) is None


@for_each(
    ("body", "media_type", "expected"),
    [
        (b"\xef\xbb\xbf\n <!DOCTYPE HTML PUBLIC>", "", True),
        (b"<div>", "text/html; charset=utf-8", True),
        (b"<div>", "application/json", False),
        (b'{"openapi": "3.0.0"}', "text/html", False),
        (b"openapi: 3.0.0\ninfo: {title: <html>}", "text/html", False),
        (b"", "text/html", False),
    ],
)
def test_page_is_told_from_a_document_by_its_beginning(body: bytes, media_type: str, expected: bool) -> None:
    assert is_html(body, media_type=media_type) is expected


def test_number_and_length_of_the_urls_are_bounded() -> None:
    many = b"<html>" + b"".join(b'<a href="/%d/openapi.json">' % number for number in range(500))
    assert len(find_document_urls(many, url=PAGE)) == MAX_URLS
    long = b"<html><a href='/" + b"a" * 490 + b"/openapi.json'>"
    assert find_document_urls(long, url=PAGE) == ()


@for_each("part", [b"<", b"<a ", b"<a href=", b"<!--", b'url: "', b"<script ", b"url ", b'a="'])
def test_hostile_page_is_read_in_bounded_time(part: bytes) -> None:
    """Unbounded repetitions would take hours for a megabyte of any of these."""
    page = b"<html>swagger" + part * (1_000_000 // len(part))
    assert find_document_urls(page, url=PAGE) == ()
    assert find_configuration_script(page, url=PAGE) is None


def test_error_names_the_urls() -> None:
    error = build_html_page_error(
        ("https://a.example/openapi.json", "https://a.example/b.json"), at="/source/url"
    )
    assert "https://a.example/openapi.json" in error.detail
    assert error.errors[0].pointer == "/source/url"
    assert error.errors[0].expected == ["https://a.example/openapi.json", "https://a.example/b.json"]
    assert "names no document" in build_html_page_error((), at="/url").errors[0].detail

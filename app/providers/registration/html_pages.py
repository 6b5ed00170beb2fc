"""HTML pages in place of a document: the pages of Swagger UI, ReDoc, Scalar, RapiDoc and Stoplight Elements,
and the URLs of documents that they name.

Pages are searched by patterns with bounded repetitions, and not parsed: they are an upstream's text.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final
from urllib.parse import urljoin, urlsplit

from app.core.errors import FieldError, InvalidDocument
from app.core.media_types import parse_essence
from app.openapi.reading.load import decode_document

MAX_URLS: Final = 10
_MAX_URL: Final = 500
_MAX_READ: Final = 256 << 10
_HTML: Final = re.compile(rb"\s{0,1000}<(?:!doctype\s{1,10}html|html|head|body|!--)", re.IGNORECASE)
# Pages of tools that show a document, whose configuration names it.
_VIEWER: Final = re.compile(r"swagger|redoc|rapi-?doc|scalar|elements-api|openapi", re.IGNORECASE)
_CONFIGURED: Final = re.compile(
    r"""\b(?:url|configUrl|specUrl)["']?\s{0,5}[:=]\s{0,5}["']([^"'\s<>]{1,500})["']"""
)
_TAG: Final = re.compile(r"<(?:a|link|script|redoc|rapi-doc|elements-api)\s([^<>]{1,2000})>", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(
    r"""([a-z-]{1,30})\s{0,5}=\s{0,5}(?:"([^"]{1,500})"|'([^']{1,500})'|([^\s"'>]{1,500}))""", re.IGNORECASE
)
_DOCUMENT_ATTRIBUTES: Final = ("spec-url", "apidescriptionurl", "data-url", "data-spec-url")
_DOCUMENT: Final = re.compile(
    r"(?:openapi|swagger|api-docs|apispec|utcp)[^/]{0,50}\.(?:json|ya?ml)$|/v[23]/api-docs$|/utcp$",
    re.IGNORECASE,
)
_DOCUMENT_HINT: Final = (
    "Give the URL of the document itself, often /openapi.json, /swagger.json or /v3/api-docs of the same "
    "host."
)
_SCRIPT: Final = re.compile(r"swagger-initializer\.js$")


def is_html(body: bytes, *, media_type: str = "") -> bool:
    """Return whether the bytes are an HTML page, judged by their beginning and their Content-Type."""
    start = body[:4096].removeprefix(b"\xef\xbb\xbf")
    if _HTML.match(start):
        return True
    essence = parse_essence(media_type)
    return essence in {"text/html", "application/xhtml+xml"} and start.lstrip()[:1] == b"<"


def find_document_urls(page: bytes, *, url: str) -> tuple[str, ...]:
    """Return the absolute URLs of documents that a page at `url` seems to lead to."""
    text = decode_document(page[:_MAX_READ])
    tags = [_read_attributes(found[1]) for found in _TAG.finditer(text)]
    named = (tag[name] for tag in tags for name in _DOCUMENT_ATTRIBUTES if name in tag)
    # RFC 8631: the description of the service that a page is about.
    described = (
        tag["href"] for tag in tags if "service-desc" in tag.get("rel", "").lower() and "href" in tag
    )
    linked = (tag["href"] for tag in tags if _DOCUMENT.search(_strip_query(tag.get("href", ""))))
    configured = _find_configured(text) if _VIEWER.search(text) else iter(())
    return tuple(_resolve_references(chain(named, described, configured, linked), url))


def find_configuration_script(page: bytes, *, url: str) -> str | None:
    """Return the URL of the script in which Swagger UI names its documents, if it has the page's origin."""
    tags = (_read_attributes(found[1]) for found in _TAG.finditer(decode_document(page[:_MAX_READ])))
    scripts = _resolve_references(
        (tag["src"] for tag in tags if _SCRIPT.search(_strip_query(tag.get("src", "")))), url
    )
    return next((one for one in scripts if _split_origin(one) == _split_origin(url)), None)


def read_script_urls(script: bytes, *, url: str) -> tuple[str, ...]:
    """Return the absolute URLs of documents in the configuration script of the page at `url`."""
    return tuple(_resolve_references(_find_configured(decode_document(script[:_MAX_READ])), url))


def build_html_page_error(urls: tuple[str, ...], *, at: str, final_url: str | None = None) -> InvalidDocument:
    """Return the error for a page, which names the documents that it leads to.

    `at` points to its URL, `final_url` is where that redirected to.
    """
    detail = "The URL serves an HTML page, neither an OpenAPI document nor a UTCP manual."
    if final_url is not None:
        detail = f"The URL redirects to {final_url}, an HTML page, {detail.partition(', ')[2]}"
    if not urls:
        unnamed = "The page names no document."
        return InvalidDocument(detail, hint=_DOCUMENT_HINT, errors=[FieldError(at, unnamed)])
    listed = list(urls[:MAX_URLS])
    hint = f"Give the URL of the document itself, probably {listed[0]}."
    return InvalidDocument(
        f"{detail} {hint}", hint=_DOCUMENT_HINT, errors=[FieldError(at, hint, expected=listed)]
    )


def _find_configured(script: str) -> Iterator[str]:
    for match in _CONFIGURED.finditer(script):
        yield match[1].replace("\\/", "/")


def _read_attributes(tag: str) -> dict[str, str]:
    matches = _ATTRIBUTE.finditer(tag)
    return {one[1].lower(): (one[2] or one[3] or one[4]).replace("&amp;", "&") for one in matches}


def _resolve_references(references: Iterator[str], base: str) -> Iterator[str]:
    """Yield the first ten distinct http(s) URLs, resolved against `base`, that can be named to a client."""
    seen = {base}
    for reference in references:
        try:
            joined = urljoin(base, reference.strip()).partition("#")[0]
            parts = urlsplit(joined)
        except ValueError:
            continue
        is_legal = parts.scheme in {"http", "https"} and parts.hostname and "@" not in parts.netloc
        if is_legal and len(joined) <= _MAX_URL and joined.isprintable() and joined not in seen:
            seen.add(joined)
            yield joined
            if len(seen) > MAX_URLS:
                return


def _strip_query(reference: str) -> str:
    return reference.partition("#")[0].partition("?")[0]


def _split_origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc

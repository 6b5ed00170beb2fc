"""Origins (RFC 6454): `scheme://host[:port]` in lower case, without the port that the scheme implies."""

from collections.abc import Iterable, Mapping
from typing import Any

from app.core.errors import InvalidInput
from app.formats.utcp.paths import HTTP_SCHEMES, compile_url
from app.protocols.origins import is_content, parts_of, template_origin
from app.protocols.registry import PROTOCOLS


def origin_of(url: str) -> str | None:
    """Return the origin of an absolute http(s) URL or URL template, None where it has no fixed, valid one.

    It is the same as the origin of a compiled call, with which allowed origins are compared.
    """
    try:
        return compile_url(url).origin
    except InvalidInput:
        return None


def origin_of_template(fields: Mapping[str, Any]) -> str | None:
    """Return the origin of a call template of any protocol, None where it has none; its variables have been
    replaced by their values.
    """
    try:
        return template_origin(fields)
    except InvalidInput:
        return None


def named_origins(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the origins of the servers in a provider's own template; () where it contains a document.

    Its variables have been replaced by their values.
    """
    if is_content(fields):
        return ()
    found = (origin_of_template(part) for part in parts_of(fields))
    return tuple(dict.fromkeys(origin for origin in found if origin))


def normalize_origin(text: str) -> str | None:
    """Return an origin of any protocol in the normalised form that is stored; None where it is not valid."""
    scheme, _, rest = text.strip().partition("://")
    scheme = scheme.lower()
    if scheme in HTTP_SCHEMES:
        return origin_of(text) if is_origin(text) else None
    if scheme in PROTOCOLS.program_schemes:
        return f"{scheme}://{rest}" if rest.isprintable() and rest else None
    try:
        found = compile_url(text, schemes=PROTOCOLS.socket_schemes)
    except InvalidInput:
        return None
    return None if any(mark in rest.removesuffix("/") for mark in "/?#@{") else found.origin


def is_origin(text: str) -> bool:
    """Return whether the text is an http(s) origin only; one trailing slash is accepted."""
    rest = text.strip().partition("://")[2].removesuffix("/")
    return origin_of(text) is not None and not any(mark in rest for mark in "/?#@{")


def origins_of(urls: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct origins of the URLs that have one, in order of first appearance."""
    found = (origin_of(url) for url in urls)
    return tuple(dict.fromkeys(origin for origin in found if origin is not None))

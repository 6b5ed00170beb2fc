"""Adding credentials to a request: the last step before sending, so that no argument can override them."""

from collections.abc import Iterable
from urllib.parse import quote, unquote_plus

from app.outbound.credentials import WireCredential
from app.security.masking import MASK

Headers = list[tuple[str, str]]


def attach(
    url: str, headers: Headers, credentials: Iterable[WireCredential], *, masked: bool = False
) -> tuple[str, Headers]:
    """Return the URL and headers with the credentials in them; a later credential overrides an earlier one.

    Credentials with the location `field` are ignored here. A header, query parameter or cookie that has the
    name of a credential is removed. With `masked`, each value is `***`.
    """
    placed: dict[str, list[tuple[str, str]]] = {"header": [], "query": [], "cookie": [], "field": []}
    for credential in credentials:
        value = MASK if masked else credential.value.reveal()
        placed[credential.location].append((credential.name, value))
    if placed["header"]:
        headers = _with_headers(headers, placed["header"])
    if placed["cookie"]:
        headers = _with_cookies(headers, placed["cookie"])
    if placed["query"]:
        url = _with_query(url, placed["query"], safe="*" if masked else "")
    return url, headers


def _with_headers(headers: Headers, added: Headers) -> Headers:
    by_name = {name.lower(): (name, value) for name, value in added}
    return [pair for pair in headers if pair[0].lower() not in by_name] + list(by_name.values())


def _with_cookies(headers: Headers, added: list[tuple[str, str]]) -> Headers:
    cookies = dict(added)
    remaining = [
        pair.strip()
        for name, value in headers
        if name.lower() == "cookie"
        for pair in value.split(";")
        if pair.partition("=")[0].strip() not in cookies
    ]
    rest = [pair for pair in headers if pair[0].lower() != "cookie"]
    return [
        *rest,
        ("Cookie", "; ".join([*remaining, *(f"{name}={value}" for name, value in cookies.items())])),
    ]


def _with_query(url: str, added: list[tuple[str, str]], *, safe: str) -> str:
    """Return the URL with the pairs added; remove pairs of their names, percent-encoded or not."""
    names = {name for name, _ in added}
    head, _, query = url.partition("#")[0].partition("?")
    remaining = [
        pair for pair in query.split("&") if pair and unquote_plus(pair.partition("=")[0]) not in names
    ]
    pairs = [f"{quote(name, safe='')}={quote(value, safe=safe)}" for name, value in added]
    return f"{head}?{'&'.join(remaining + pairs)}"

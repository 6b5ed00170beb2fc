"""The URL of an operation, literally: server of the nearest level, variables, RFC 3986, path (M13)."""

import re
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from benchmarks.corpus.reading import LiteralOperation, Reading

_SAFE = "/:@!$&'()*+,;=-._~"


def expected_url(reading: Reading, operation: LiteralOperation) -> str | None:
    """Return the URL template that the document gives an operation; None where it gives no http(s) URL."""
    for holder in (operation.node, operation.item, reading.raw):
        servers = holder.get("servers")
        if isinstance(servers, list) and servers:
            made = (_server(reading, one) for one in servers if isinstance(one, dict))
            base = next((one for one in made if one), None)
            break
    else:
        base = urljoin(reading.url, "/")
    if base is None:
        return None
    # The path is appended to the server URL (OAS Paths Object); no relative resolution. A fragment of the
    # path is never sent, and an RFC 6570 expansion (`{?page}`) stands for parameters of the query.
    path = re.sub(r"\{[?&#][^{}]*\}", "", operation.path).split("#", 1)[0]
    head, mark, query = base.partition("?")
    return head.rstrip("/") + ("" if path.startswith("/") else "/") + path + mark + query


def _server(reading: Reading, server: dict[str, Any]) -> str | None:
    url = server.get("url")
    variables = server.get("variables")
    variables = variables if isinstance(variables, dict) else {}
    if not isinstance(url, str):
        return None
    missing = []

    def value(found: re.Match[str]) -> str:
        variable = variables.get(found[1])
        default = variable.get("default") if isinstance(variable, dict) else None
        if default is None:
            missing.append(found[1])
        return str(default)

    filled = re.sub(r"\{([^{}]*)\}", value, url.strip())
    whole = urljoin(reading.url, filled).split("#", 1)[0]
    return None if missing or urlsplit(whole).scheme not in ("http", "https") else whole


def canonical(url: str) -> tuple[str, ...]:
    """Return scheme, authority, path and query in canonical form: case, default port, percent-encoding."""
    parts = urlsplit(url.replace("{", "\x01").replace("}", "\x02"))
    host = (parts.hostname or "").encode("idna").decode() if parts.hostname else ""
    port = "" if parts.port in (None, {"http": 80, "https": 443}.get(parts.scheme)) else f":{parts.port}"
    return parts.scheme, host + port, _encoded(parts.path or "/"), _encoded(parts.query)


def _encoded(text: str) -> str:
    pieces = re.split("(\x01[^\x01\x02]*\x02)", text)
    return "".join(
        f"{{{piece[1:-1]}}}" if index % 2 else quote(unquote(piece), safe=_SAFE)
        for index, piece in enumerate(pieces)
    )

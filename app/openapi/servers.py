"""The URL of an operation: server selection, server variables, RFC 3986 resolution, and the URL template."""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from app.openapi.document import OpenApiDocument
from app.openapi.model import Json
from app.openapi.report import OperationProblem

_VARIABLE = re.compile(r"\{([^{}]*)\}")
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:@/\\?#\[\]{}%]{1,253})((?::[0-9]{1,5})?)")
_HOST = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9._-]{1,253}")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_PLACEHOLDER = re.compile(r"\{([^{}/?#]+)\}")
_EXPANSION = re.compile(r"\{[?&#][^{}]*\}")
# Characters that are legal in a path (RFC 3986 section 3.3), and the `%` of what is already encoded.
_PATH_SAFE = "/%:@!$&'()*+,;=-._~"
_QUERY_SAFE = _PATH_SAFE + "?"
UNKNOWN_BASE = "has a relative server URL or none, and the URL of the document is not known: give `base_url`"
_MAX_SERVERS = 50
_MAX_URL = 4_000
_MAX_TEMPLATE = 8_000


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """An absolute base URL without a trailing slash, and notes on how it was derived."""

    url: str
    notes: tuple[str, ...] = ()


def origin(url: str) -> str:
    """Return `https://host[:port]` in lower case, without the scheme's default port (RFC 6454 section
    6.1).
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    own = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port not in (None, own) else "")


def select_server(document: OpenApiDocument, levels: tuple[tuple[Any, str], ...]) -> BaseUrl:
    """Return the base URL of an operation, from the first level that lists servers (operation, path,
    document).

    Raises OperationProblem where none of that level's servers has an absolute http(s) URL.
    """
    for listed, at in levels:
        if isinstance(listed, list) and listed:
            key = ("servers", id(listed))
            if key not in document.memo:
                document.memo[key] = listed, _choose(document, listed, at)
            chosen: BaseUrl | str = document.memo[key][1]
            if isinstance(chosen, str):
                raise OperationProblem(chosen, pointer=at)
            return chosen
    return _resolved_or_problem(document, "/", "")


def select_server_v2(document: OpenApiDocument, operation: Json) -> BaseUrl:
    """Return the base URL of a Swagger 2.0 operation, from `schemes`, `host` and `basePath`.

    What is missing comes from the URL of the document. Raises OperationProblem as `select_server` does.
    """
    raw = document.raw
    schemes = operation.get("schemes") or raw.get("schemes")
    offered = [one for one in schemes if one in ("https", "http")] if isinstance(schemes, list) else []
    if isinstance(schemes, list) and schemes and not offered:
        raise OperationProblem("is offered over neither https nor http", pointer="/schemes")
    path = raw.get("basePath")
    path = "/" + path.strip().lstrip("/") if isinstance(path, str) and path.strip() else "/"
    host = raw.get("host")
    if not isinstance(host, str) or not host.strip():
        return _resolved_or_problem(document, path, "/host")
    host = re.sub(r"^[a-z]+://", "", host.strip()).rstrip("/")
    own = urlsplit(document.options.base_url or document.options.url or "").scheme
    scheme = "https" if "https" in offered or not offered else offered[0]
    if not offered and own == "http" and urlsplit(document.options.url or "").netloc == host:
        scheme = "http"
    return _resolved_or_problem(document, f"{scheme}://{host}{path}", "/host")


def template(base_url: BaseUrl, path: str) -> str:
    """Return the URL template of an operation: base, path and query, with `{placeholders}` as they are
    written.

    A fragment in the path key (`/#Action=List`) only distinguishes operations, and is removed.
    Raises OperationProblem for dot segments, which clients and servers would collapse, and for overlong URLs.
    """
    base = urlsplit(base_url.url)
    literal = _EXPANSION.sub("", path).split("#", 1)[0]
    route, _, query = literal.partition("?")
    route = "/" + route.lstrip("/") if not route.startswith("/") else route
    queries = [part for part in (quote(base.query, safe=_QUERY_SAFE), _escaped(query, _QUERY_SAFE)) if part]
    joined = quote(base.path.rstrip("/"), safe=_PATH_SAFE) + _escaped(route, _PATH_SAFE)
    # Decoded twice: a server may do so before it routes.
    if any(unquote(unquote(segment)) in {".", ".."} for segment in joined.split("/")):
        raise OperationProblem("has a path with dot segments (`.`, `..`)")
    whole = f"{base.scheme}://{base.netloc}{joined}" + (f"?{'&'.join(queries)}" if queries else "")
    if len(whole) > _MAX_TEMPLATE:
        raise OperationProblem(f"has a URL of more than {_MAX_TEMPLATE} characters")
    return whole


def absolute(document: OpenApiDocument, url: Any) -> str | None:
    """Return a URL of the document (a token endpoint) resolved against the document's; None if not
    http(s).
    """
    if not isinstance(url, str) or not url.strip():
        return None
    result = _resolve(document, url.strip(), prefer_base=False)
    return result.url if isinstance(result, BaseUrl) else None


def _escaped(text: str, safe: str) -> str:
    pieces = _PLACEHOLDER.split(text)
    return "".join(
        f"{{{piece}}}" if index % 2 else quote(piece, safe=safe) for index, piece in enumerate(pieces)
    )


def _choose(document: OpenApiDocument, listed: list[Any], at: str) -> BaseUrl | str:
    """Return the first usable server, or the reason why none is: documents also list `ws:` and incomplete
    ones.
    """
    problem = ""
    for node in listed[:_MAX_SERVERS]:
        result: BaseUrl | str = "has a server that is not an object"
        if isinstance(node, dict):
            result = _substituted(document, node)
        if isinstance(result, BaseUrl):
            return result
        problem = problem or result
    return problem or f"has no usable server at {at}"


def _substituted(document: OpenApiDocument, server: Json) -> BaseUrl | str:
    url = server.get("url")
    if not isinstance(url, str):
        return "has a server without a URL"
    variables = server.get("variables")
    variables = variables if isinstance(variables, dict) else {}
    missing: list[str] = []

    def value(found: re.Match[str]) -> str:
        variable = variables.get(found[1])
        choices = variable.get("enum") if isinstance(variable, dict) else None
        default = variable.get("default") if isinstance(variable, dict) else None
        if default is None and isinstance(choices, list) and choices:
            default = choices[0]
        if isinstance(default, str | int | float) and not isinstance(default, bool):
            return str(default)
        missing.append(found[1])
        return ""

    filled = _VARIABLE.sub(value, url.strip()[:_MAX_URL]).replace(" ", "%20")
    if missing:
        return f"has a server URL whose variable `{missing[0][:100]}` has no default"
    return _resolve(document, filled)


def _resolved_or_problem(document: OpenApiDocument, url: str, at: str) -> BaseUrl:
    result = _resolve(document, url)
    if isinstance(result, str):
        raise OperationProblem(result, pointer=at)
    return result


def _resolve(document: OpenApiDocument, url: str, *, prefer_base: bool = True) -> BaseUrl | str:
    """Return an absolute base URL, or the reason why there is none.

    A relative URL is resolved against `base_url` (as a folder) or the document's own URL.
    """
    options = document.options
    parts = _split(url)
    if parts is not None and not parts.scheme and not (parts.netloc or options.url or options.base_url):
        return UNKNOWN_BASE
    if parts is not None and not parts.scheme:
        if prefer_base and options.base_url and not parts.netloc:
            # The registrar's base URL is that of the API, so a server of "/" is this URL itself.
            url = urljoin(options.base_url.rstrip("/") + "/", url if url.strip("/") else "")
        elif options.url or options.base_url:
            url = urljoin(options.url or options.base_url or "", url)
        else:
            url = f"https:{url}"
    return _checked(url)


def _split(url: str) -> Any:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _checked(url: str) -> BaseUrl | str:
    parts = _split(url)
    if parts is None or len(url) > _MAX_URL or _FORBIDDEN.search(url):
        return "has a server URL that is not legal"
    scheme = parts.scheme.lower()
    if scheme not in {"http", "https"}:
        return f"has a server that is called over `{scheme[:20]}`, not http"
    notes: tuple[str, ...] = ()
    authority = parts.netloc
    if "@" in authority:
        authority = authority.rpartition("@")[2]
        notes = ("user info in the server URL was left out: it is a credential",)
    legal = _legal_authority(authority.lower())
    if legal is None:
        return "has a server URL without a legal host"
    if parts.fragment:
        notes = (*notes, "the fragment of the server URL was left out")
    path = "" if parts.path == "/" else parts.path
    return BaseUrl(urlunsplit((scheme, legal, path, parts.query, "")), notes)


def _legal_authority(authority: str) -> str | None:
    """Return host and port, with an internationalised name in its ASCII form (RFC 5890); None if not
    legal.
    """
    match = _AUTHORITY.fullmatch(authority)
    if match is None or (match[2] and int(match[2][1:]) == 0):
        return None
    host = match[1]
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    return host + match[2] if _HOST.fullmatch(host) else None

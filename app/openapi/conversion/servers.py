"""The URL of an operation: server selection, server variables, RFC 3986 resolution, and the URL template."""

import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from app.openapi.conversion.declared_servers import MAX_SERVERS, VARIABLE, DeclaredServer
from app.openapi.conversion.server_options import find_chosen_server, list_servers_v2
from app.openapi.model import Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.report import OperationProblem

_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:@/\\?#\[\]{}%]{1,253})((?::[0-9]{1,5})?)")
_HOST = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9._-]{1,253}")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_PLACEHOLDER = re.compile(r"\{([^{}/?#]+)\}")
_EXPANSION = re.compile(r"\{[?&#][^{}]*\}")
# Characters that are legal in a path (RFC 3986 section 3.3), and the `%` of what is already encoded.
_PATH_SAFE = "/%:@!$&'()*+,;=-._~"
_QUERY_SAFE = _PATH_SAFE + "?"
UNKNOWN_BASE = "has a relative server URL or none, and the URL of the document is not known: give `base_url`"
UNSET_VARIABLE = "has a server URL whose variable "
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
    default_port = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port not in (None, default_port) else "")


def select_server(document: OpenApiDocument, levels: tuple[tuple[Any, str], ...]) -> BaseUrl:
    """Return the base URL of an operation, from the first level that lists servers (operation, path,
    document).

    Raises OperationProblem where none of that level's servers has an absolute http(s) URL.
    """
    for listed, pointer in levels:
        if isinstance(listed, list) and listed:
            key = ("servers", id(listed))
            if key not in document.memo:
                document.memo[key] = listed, _choose(document, listed, pointer)
            chosen: BaseUrl | str = document.memo[key][1]
            if isinstance(chosen, str):
                raise OperationProblem(chosen, pointer=pointer)
            return chosen
    return _resolve_or_raise(document, "/", "")


def select_server_v2(document: OpenApiDocument, operation: Json) -> BaseUrl:
    """Return the base URL of a Swagger 2.0 operation, from `schemes`, `host` and `basePath`.

    What is missing comes from the URL of the document. Raises OperationProblem as `select_server` does.
    """
    raw = document.raw
    schemes = operation.get("schemes") or raw.get("schemes")
    offered = [one for one in schemes if one in ("https", "http")] if isinstance(schemes, list) else []
    if isinstance(schemes, list) and schemes and not offered:
        raise OperationProblem("is offered over neither https nor http", pointer="/schemes")
    document_url = urlsplit(document.options.url or "")
    host = str(raw.get("host")).partition("://")[2] or str(raw.get("host"))
    if not offered:
        offered = [
            "http" if document_url.scheme == "http" and document_url.netloc == host.strip("/ ") else "https"
        ]
    key = (f"servers {' '.join(offered)}", id(raw))
    if key not in document.memo:
        # The document's https server comes first, whatever the order of its schemes.
        listed = list_servers_v2(raw, document.references, schemes=sorted(set(offered), reverse=True))
        document.memo[key] = raw, _choose(document, listed, "/host") if listed else ""
    chosen: BaseUrl | str = document.memo[key][1]
    if chosen == "":
        path = raw.get("basePath")
        path = "/" + path.strip().lstrip("/") if isinstance(path, str) and path.strip() else "/"
        return _resolve_or_raise(document, path, "/host")
    if isinstance(chosen, str):
        raise OperationProblem(chosen, pointer="/host")
    return chosen


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
    queries = [part for part in (quote(base.query, safe=_QUERY_SAFE), _escape(query, _QUERY_SAFE)) if part]
    joined = quote(base.path.rstrip("/"), safe=_PATH_SAFE) + _escape(route, _PATH_SAFE)
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


def _escape(text: str, safe: str) -> str:
    pieces = _PLACEHOLDER.split(text)
    return "".join(
        f"{{{piece}}}" if index % 2 else quote(piece, safe=safe) for index, piece in enumerate(pieces)
    )


def _choose(document: OpenApiDocument, listed: list[Any], pointer: str) -> BaseUrl | str:
    """Return the server that the registrar chose, else the first usable one, or the reason why none is:
    documents also list `ws:` and incomplete ones.
    """
    listed = listed[:MAX_SERVERS]
    chosen = find_chosen_server(document.options.server, listed, is_root=pointer in ("/servers", "/host"))
    problem = ""
    for index, node in enumerate(listed):
        if chosen is not None and node is not chosen:
            continue
        result: BaseUrl | str = "has a server that is not an object"
        if isinstance(node, dict):
            result = _substitute_variables(
                document, node, pointer if pointer == "/host" else f"{pointer}/{index}"
            )
        if isinstance(result, BaseUrl):
            return result
        problem = problem or result
    return problem or f"has no usable server at {pointer}"


def _substitute_variables(document: OpenApiDocument, node: Json, pointer: str) -> BaseUrl | str:
    """Return the URL of a server with the values of its variables.

    `base_url` stands in for a URL with variables that `server_variables` does not give completely.
    """
    url = node.get("url")
    server = DeclaredServer.of(node)
    if not isinstance(url, str) or server is None:
        return "has a server without a URL"
    options = document.options
    given = options.server_variables
    values = {one.name: one.value(given.get(one.name)) for one in server.variables}
    unset = [one for one in server.variables if one.name not in given]
    if unset and options.base_url:
        base = _resolve(document, options.base_url)
        note = f"`base_url` stands in for the server {server.url[:200]}"
        return replace(base, notes=(*base.notes, note)) if isinstance(base, BaseUrl) else base
    missing = [name for name, value in values.items() if value is None]
    if missing:
        return f"{UNSET_VARIABLE}`{missing[0][:100]}` has no default: give `server_variables`"
    for variable in unset:
        if variable.name in server.host_variables:
            choices = f", one of {', '.join(variable.enum)}"[:300] if variable.enum else ""
            detail = (
                f"the host of {server.url[:200]} has the default {str(variable.default)[:100]!r} of its "
                f"variable `{variable.name[:100]}`; the option `server_variables` sets another{choices}"
            )
            document.warnings.add(pointer if pointer.startswith(("/servers", "/host")) else "", detail)

    if not url.strip():
        detail = "an empty server URL means that of the document itself; `base_url` says where the API is"
        document.warnings.add(f"{pointer}/url", detail)

    def choose_value(match: re.Match[str]) -> str:
        return values.get(match[1]) or ""

    return _resolve(document, VARIABLE.sub(choose_value, url.strip()[:_MAX_URL]).replace(" ", "%20"))


def _resolve_or_raise(document: OpenApiDocument, url: str, pointer: str) -> BaseUrl:
    result = _resolve(document, url)
    if isinstance(result, str):
        raise OperationProblem(result, pointer=pointer)
    return result


def _resolve(document: OpenApiDocument, url: str, *, prefer_base: bool = True) -> BaseUrl | str:
    """Return an absolute base URL, or the reason why there is none.

    A relative URL is resolved against `base_url` (as a folder) or the URL of the document; against its
    `$self` only where neither is known (OAS 3.2.0, section 4.5.2.1).
    """
    options = document.options
    parts = _split(url)
    document_url = options.url
    if parts is not None and not (parts.scheme or document_url or options.base_url):
        document_url = _read_own_url(document)
    if parts is not None and not parts.scheme and not (parts.netloc or document_url or options.base_url):
        return UNKNOWN_BASE
    if parts is not None and not parts.scheme:
        if prefer_base and options.base_url and not parts.netloc:
            # The registrar's base URL is that of the API, so a server of "/" is this URL itself.
            url = urljoin(options.base_url.rstrip("/") + "/", url if url.strip("/") else "")
        elif document_url or options.base_url:
            url = urljoin(document_url or options.base_url or "", url)
        else:
            url = f"https:{url}"
    return _check_url(url)


def _read_own_url(document: OpenApiDocument) -> str | None:
    """Return `$self` as the URL of a document, after a warning; None where it has none over http(s)."""
    own_url = document.raw.get("$self")
    if (
        document.version == "2.0"
        or not isinstance(own_url, str)
        or not isinstance(_check_url(own_url), BaseUrl)
    ):
        return None
    detail = "the URL of the document is not known: its relative URLs are resolved against `$self`"
    document.warnings.add("/$self", detail)
    return own_url


def _split(url: str) -> Any:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _check_url(url: str) -> BaseUrl | str:
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
    legal = _normalize_authority(authority.lower())
    if legal is None:
        return "has a server URL without a legal host"
    if parts.fragment:
        notes = (*notes, "the fragment of the server URL was left out")
    path = "" if parts.path == "/" else parts.path
    return BaseUrl(urlunsplit((scheme, legal, path, parts.query, "")), notes)


def _normalize_authority(authority: str) -> str | None:
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

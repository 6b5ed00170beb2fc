"""URLs of Postman requests: the server with its variables, the path template, and the query.

A URL is a text or an object (`protocol`, `host`, `port`, `path`, `query`, `variable`); `{{name}}` is a
variable of the collection or of an environment that it does not contain, `:name` a variable of the path.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.openapi.model import Json

_VARIABLE: Final = re.compile(r"\{\{\s*([^{}]{1,200}?)\s*\}\}")
_SCHEME: Final = re.compile(r"((?:\{\{[^{}]{1,200}\}\}|[A-Za-z][A-Za-z0-9+.-]*))://")
_PORT: Final = re.compile(r":([0-9]{1,5}|\{\{[^{}]{1,200}\}\})$")
_NOT_A_NAME: Final = re.compile(r"[{}/?#\s]+")
_MAX_NESTING: Final = 8
_MAX_EXPANDED: Final = 4_000


@dataclass(frozen=True, slots=True)
class PostmanUrl:
    """The parts of a URL as they are written; `host` is "" where there is none. `query` and `variables` are
    the descriptions of their parts, with `key`, `value`, `description` and `disabled`.
    """

    protocol: str
    host: str
    port: str
    path: tuple[str, ...]
    query: tuple[Json, ...] = ()
    variables: tuple[Json, ...] = ()

    def build_path_template(self) -> tuple[str, dict[str, str]]:
        """Return the path with `{placeholders}`, and what is written for each (`:id`, `{{id}}`)."""
        written: dict[str, str] = {}

        def add_placeholder(name: str, text: str) -> str:
            plain = _NOT_A_NAME.sub("_", name) or "value"
            written.setdefault(plain, text)
            return f"{{{plain}}}"

        segments = []
        for segment in self.path:
            if segment.startswith(":") and len(segment) > 1:
                segments.append(add_placeholder(segment[1:], segment))
                continue
            pieces = _VARIABLE.split(segment)
            segments.append("".join(
                add_placeholder(piece, f"{{{{{piece}}}}}") if index % 2 else _escape_braces(piece)
                for index, piece in enumerate(pieces)
            ))  # fmt: skip
        return "/" + "/".join(segments), written


def _escape_braces(text: str) -> str:
    return text.replace("{", "%7B").replace("}", "%7D")


def read_url(url: Any) -> PostmanUrl | None:
    """Return the parts of a request's URL; None where it has none."""
    if isinstance(url, str):
        return _parse_text(url) if url.strip() else None
    if not isinstance(url, Mapping):
        return None
    query = _list_descriptions(url.get("query"))
    variables = _list_descriptions(url.get("variable"))
    host = _join(url.get("host"), ".")
    if not host:
        raw = url.get("raw")
        read = _parse_text(raw) if isinstance(raw, str) and raw.strip() else None
        if read is None:
            return None
        return PostmanUrl(read.protocol, read.host, read.port, read.path, query or read.query, variables)
    path = url.get("path")
    segments = (
        path.strip("/").split("/") if isinstance(path, str) else [_read_segment(one) for one in path or ()]
    )
    protocol = url.get("protocol")
    protocol = protocol if isinstance(protocol, str) else ""
    return PostmanUrl(protocol, host, _read_segment(url.get("port")), tuple(segments), query, variables)


def build_server(url: PostmanUrl, variables: Mapping[str, str]) -> Json | None:
    """Return the Server Object of a URL; None where it has no host.

    `variables` are the values of the collection. A variable whose value names others is written out.
    """
    if not url.host:
        return None
    host = _expand(url.host, variables)
    port = f":{_expand(url.port, variables)}" if url.port else ""
    begins = _VARIABLE.match(host)
    protocol = _expand(url.protocol, variables)
    bare = protocol == "" and begins is not None
    text = f"{host}{port}" if bare or "://" in host else f"{protocol or 'http'}://{host}{port}"
    names = dict.fromkeys(_VARIABLE.findall(text))
    declared: Json = {}
    for name in names:
        value = variables.get(name, "").strip()
        if begins is not None and name == begins[1]:
            # What stands for the beginning of a URL may have a scheme, or leave it to Postman's default.
            value = _with_scheme(value) if bare else value.partition("://")[2] or value
        declared[_name_server(name)] = {"default": value.rstrip("/")} if value else {}
    return {
        "url": _VARIABLE.sub(lambda match: f"{{{_name_server(match[1])}}}", text),
        "variables": declared,
    }


def _with_scheme(value: str) -> str:
    return value if not value or "://" in value else f"http://{value}"


def _name_server(name: str) -> str:
    return _NOT_A_NAME.sub("_", name)


def _expand(text: str, variables: Mapping[str, str]) -> str:
    """Return the text with those variables written out whose values name other variables, as long as it has
    at most 4,000 characters.
    """

    def expand_variable(match: re.Match[str]) -> str:
        known = variables.get(match[1], "")
        return known if "{{" in known and len(known) <= _MAX_EXPANDED else match[0]

    for _ in range(_MAX_NESTING):
        if len(text) > _MAX_EXPANDED:
            break
        expanded = _VARIABLE.sub(expand_variable, text)
        if expanded == text or len(expanded) > _MAX_EXPANDED:
            break
        text = expanded
    return text


def _parse_text(raw: str) -> PostmanUrl:
    text = raw.strip().partition("#")[0]
    scheme = _SCHEME.match(text)
    protocol, rest = (scheme[1], text[scheme.end() :]) if scheme else ("", text)
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    port = _PORT.search(authority)
    host = authority[: port.start()] if port else authority
    split = (pair.partition("=") for pair in query.split("&") if pair)
    pairs = tuple({"key": name, "value": value} for name, _, value in split)
    return PostmanUrl(protocol, host, port[1] if port else "", tuple(path.split("/")), pairs)


def _list_descriptions(listed: Any) -> tuple[Json, ...]:
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        return ()
    return tuple(dict(one) for one in listed if isinstance(one, Mapping))


def _join(value: Any, separator: str) -> str:
    if isinstance(value, str):
        return value.strip()
    return separator.join(filter(None, map(_read_segment, value))) if isinstance(value, list) else ""


def _read_segment(value: Any) -> str:
    """Return a segment: a text, a number, or an object with a `value`."""
    if isinstance(value, Mapping):
        value = value.get("value")
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""

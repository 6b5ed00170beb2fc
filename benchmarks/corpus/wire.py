"""The request that OpenAPI's tables prescribe: an independent serialiser.

OAS 3.0.4/3.1.1 "Style Values" and "Style Examples", RFC 6570 for what they refer to, RFC 7578 for parts. What
those leave open raises UndefinedError and is not compared: lists in lists, deepObject of anything but a flat
object, exploded lists in cookies, empty values in paths.
"""

import base64
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from benchmarks.corpus.bodies import base as media_base
from benchmarks.corpus.bodies import is_json
from benchmarks.corpus.reading import Json

_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_RESERVED = ":/?@!$'()*,;"
_OPEN = frozenset("#&[]+=%")
_TEXTUAL = frozenset(
    "application/" + name
    for name in ("yaml", "x-yaml", "jwt", "graphql", "x-ndjson", "ndjson", "jsonl", "json-seq", "javascript")
)


_JSON_LINES = frozenset({"application/jsonl", "application/x-ndjson"})


class UndefinedError(Exception):
    """Raised where the specification does not define how a value is serialised."""


@dataclass(frozen=True)
class Style:
    """How a value is serialised, and under which name."""

    name: str
    style: str
    explode: bool
    reserved: bool = False


def encoded(text: str, *, reserved: bool = False) -> str:
    """Percent-encode all but unreserved (with `reserved`, also reserved) characters: RFC 6570, 3.2.1."""
    if reserved and _OPEN & set(text):
        # Applications must know which of them would end or split the query (OAS 3.1.1, 4.8.12.2.1).
        raise UndefinedError("reserved characters that delimit")
    unescaped = _UNRESERVED + (_RESERVED if reserved else "")
    return "".join(c if c in unescaped else "".join(f"%{byte:02X}" for byte in c.encode()) for c in text)


def text_of(value: Any) -> str:
    """Return a scalar as text: as in JSON, strings without quotes."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, float) and not value.is_integer() and 1e-4 < abs(value) < 1e15:
        return json.dumps(value)
    raise UndefinedError(f"{type(value).__name__} inside")


def _items(value: Any, *, explode: bool, reserved: bool = False, plain: bool = False) -> list[str]:
    def write(one: Any) -> str:
        return text_of(one) if plain else encoded(text_of(one), reserved=reserved)

    if not value:
        raise UndefinedError("an empty list or object")
    if isinstance(value, dict):
        pairs = [(write(key), write(one)) for key, one in value.items()]
        return [f"{k}={v}" for k, v in pairs] if explode else [text for pair in pairs for text in pair]
    return [write(one) for one in value]


def query(spec: Style, value: Any) -> list[str]:
    """Return the `name=value` pairs of a query parameter or urlencoded field."""
    name = encoded(spec.name)
    if not isinstance(value, list | dict):
        if spec.style != "form":
            raise UndefinedError("a scalar in a style for lists and objects")
        return [f"{name}={encoded(text_of(value), reserved=spec.reserved)}"]
    if spec.style == "deepObject":
        if not isinstance(value, dict) or not value:
            raise UndefinedError("deepObject of a list")
        return [
            f"{name}%5B{encoded(key)}%5D={encoded(text_of(one), reserved=spec.reserved)}"
            for key, one in value.items()
        ]
    if spec.style != "form" and spec.explode:
        raise UndefinedError("an exploded delimited list")
    items = _items(value, explode=spec.explode, reserved=spec.reserved)
    if spec.explode:
        return items if isinstance(value, dict) else [f"{name}={item}" for item in items]
    delimiter = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}[
        spec.style
    ]
    return [f"{name}={delimiter.join(items)}"]


def path(spec: Style, value: Any) -> str:
    """Return the text of a path segment, which `/` and `?` would end (OAS 3.2.0, 4.12.1)."""
    return _encode_segment(spec, value).replace("/", "%2F").replace("?", "%3F")


def _encode_segment(spec: Style, value: Any) -> str:
    name = encoded(spec.name)
    if not isinstance(value, list | dict):
        text = encoded(text_of(value), reserved=spec.reserved)
        if not text:
            raise UndefinedError("an empty segment")
        return {"label": f".{text}", "matrix": f";{name}={text}"}.get(spec.style, text)
    items = _items(value, explode=spec.explode, reserved=spec.reserved)
    if spec.style == "simple":
        return ",".join(items)
    if spec.style == "label":
        return "." + ("." if spec.explode else ",").join(items)
    if not spec.explode:
        return f";{name}={','.join(items)}"
    return "".join(f";{item}" if isinstance(value, dict) else f";{name}={item}" for item in items)


def header(spec: Style, value: Any) -> str:
    """Return a field value: `simple` without percent-encoding (OAS 3.1.1, Appendix D)."""
    items = (
        _items(value, explode=spec.explode, plain=True)
        if isinstance(value, list | dict)
        else [text_of(value)]
    )
    text = ",".join(items)
    if not text.isascii() or not text.isprintable() or text != text.strip() or not text:
        raise UndefinedError("a field value that HTTP does not carry as it is")
    return text


def cookie(spec: Style, value: Any) -> list[str]:
    """Return the `name=value` pairs of the Cookie header."""
    if spec.style == "cookie":
        return _plain_cookies(spec, value)
    if isinstance(value, list | dict) and spec.explode:
        raise UndefinedError("an exploded list in a cookie")
    return query(spec, value)


def _plain_cookies(spec: Style, value: Any) -> list[str]:
    """OAS 3.2.0, Style Examples, `cookie`: as `form`, without percent-encoding."""
    if not isinstance(value, list | dict):
        return [f"{spec.name}={text_of(value)}"]
    items = _items(value, explode=spec.explode, plain=True)
    if not spec.explode:
        return [f"{spec.name}={','.join(items)}"]
    return items if isinstance(value, dict) else [f"{spec.name}={item}" for item in items]


def form(value: Json) -> list[str]:
    """Return the pairs of a form in a query string (OAS 3.2.0, `in: querystring`; WHATWG URL, section 5)."""
    return [urlencode([pair]) for pair in _urlencoded(value, {})]


def is_text(kind: str) -> bool:
    """Return whether a media type (without parameters) has textual content by definition."""
    return kind.startswith("text/") or kind.endswith(("/xml", "+xml", "+yaml")) or kind in _TEXTUAL


def by_content(media: str, value: Any) -> str:
    """Return the text of a parameter with `content`."""
    if "*" in media:
        raise UndefinedError("a range of media types")
    if not is_json(media):
        return text_of(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# Bodies -----------------------------------------------------------------------------------------------------


def check_body(media: str, encoding: Json, value: Any, files: frozenset[str], sent: tuple[str, bytes]) -> str:
    """Return the error in a body as sent (content type and bytes), "" if it is correct."""
    content_type, content = sent
    kind = media_base(content_type)
    if kind != media_base(media) and "*" not in media:
        return f"content type {content_type}"
    if is_json(kind):
        return "" if _parsed(content) == value else f"JSON {content[:200]!r}"
    if kind == "application/x-www-form-urlencoded":
        expected = sorted(_urlencoded(value, encoding))
        got = sorted(parse_qsl(content.decode(), keep_blank_values=True))
        return "" if expected == got else f"fields {got}, not {expected}"
    if kind.startswith("multipart/"):
        wanted = sorted(_expected_parts(value, encoding, files), key=str)
        parts = sorted(parse_multipart(content_type, content), key=str)
        if wanted != parts:
            return f"parts {parts}, not {wanted}"
        names = file_names(content)
        missing = [one for one in _named_files(value, files) if one not in names]
        return f"files {names}, without {missing}" if missing else ""
    if kind.endswith(("/xml", "+xml")) and not isinstance(value, str):
        return ""
    if isinstance(value, list) and (kind.endswith("json-seq") or kind in _JSON_LINES):
        return "" if _sequence(content, kind) == value else f"sequence {content[:200]!r}"
    if is_text(kind):
        return "" if content == text_of(value).encode() else f"text {content[:200]!r}"
    return "" if content == base64.b64decode(value) else f"bytes {content[:200]!r}"


def _sequence(content: bytes, kind: str) -> list[Any]:
    """Return the items of JSON lines, or of a JSON text sequence (RFC 7464)."""
    if kind in _JSON_LINES:
        return [_parsed(line) for line in content.split(b"\n")[:-1]]
    return [_parsed(text) for text in content.split(b"\x1e")[1:]]


def _parsed(content: bytes) -> Any:
    """Return the parsed JSON, or the bytes themselves, which equal no value, where they are not JSON."""
    try:
        return json.loads(content)
    except ValueError:
        return content


def _urlencoded(value: Json, encoding: Json) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, one in value.items():
        rules = encoding.get(name) or {}
        if not {"style", "explode", "allowReserved"} & rules.keys():
            if isinstance(one, dict):
                # OAS 3.0.4 "Encoding Object": the default content type of an object is application/json.
                pairs.append((name, json.dumps(one, ensure_ascii=False, separators=(",", ":"))))
                continue
            if is_json(str(rules.get("contentType"))):
                pairs.append((name, json.dumps(one, ensure_ascii=False, separators=(",", ":"))))
                continue
        style = rules.get("style", "form")
        spec = Style(name, style, rules.get("explode", style == "form"))
        pairs += parse_qsl("&".join(query(spec, one)), keep_blank_values=True)
    return pairs


def _expected_parts(value: Json, encoding: Json, files: frozenset[str]) -> list[tuple[str, str, Any]]:
    """Return (name, content type, content) of each part; JSON contents are parsed."""
    parts: list[tuple[str, str, Any]] = []
    for name, one in value.items():
        rules = encoding.get(name) or {}
        if {"style", "explode", "allowReserved"} & rules.keys():
            # OAS 3.0: these SHALL be ignored for multipart; 3.1 has them. Not compared.
            raise UndefinedError("style in multipart")
        media = str(rules["contentType"]).split(",")[0].strip() if "contentType" in rules else None
        is_file = name in files
        items = one if isinstance(one, list) and (is_file or not is_json(media or "")) else [one]
        parts += [(name, *_expected_part(item, media, is_file=is_file)) for item in items]
    return parts


def _named_files(value: Json, files: frozenset[str]) -> list[tuple[str, str]]:
    """Return the names of the parts and of the files in them, of those that have one."""
    given = [(name, one) for name in files & value.keys() for one in _listed(value[name])]
    return [(name, one["filename"]) for name, one in given if isinstance(one, dict) and "filename" in one]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def file_names(content: bytes) -> list[tuple[str, str]]:
    """Return the names of the parts of a form and of the files in them."""
    found = re.findall(rb'; name="([^"]*)"; filename="([^"]*)"', content)
    return [(name.decode(), filename.decode()) for name, filename in found]


def _expected_part(item: Any, media: str | None, *, is_file: bool) -> tuple[str, Any]:
    if is_file:
        given = item if isinstance(item, dict) else {"data": item}
        media = given.get("content_type") or media
        if media is not None and ("*" in media or is_json(media)):
            raise UndefinedError("a file of an open type")
        content = given["text"].encode() if "text" in given else base64.b64decode(given["data"])
        return media or "application/octet-stream", content
    if isinstance(item, dict) or is_json(media or ""):
        return media_base(media or "application/json"), item
    if isinstance(item, list):
        raise UndefinedError("a list in a list")
    if media is not None and not media.startswith(("text/", "application/")):
        raise UndefinedError("text where an image is announced")
    return media or "text/plain", text_of(item).encode()


def parse_multipart(content_type: str, content: bytes) -> list[tuple[str, str, Any]]:
    """Return the parts of a form as (name, content type, content), RFC 7578."""
    boundary = content_type.partition("boundary=")[2].strip('"').encode()
    found = []
    for chunk in content.split(b"--" + boundary)[1:-1]:
        head, _, rest = chunk.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().strip().split("\r\n"))
        name = lines["Content-Disposition"].partition('name="')[2].partition('"')[0]
        kind = lines.get("Content-Type", "text/plain")
        raw = rest.removesuffix(b"\r\n")
        found.append((name, kind, _parsed(raw) if is_json(kind) else raw))
    return found

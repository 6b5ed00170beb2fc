"""A literal reading of an OpenAPI 3.x document, by the text of the specification only."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

Json = dict[str, Any]

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_PLACES = ("path", "query", "querystring", "header", "cookie")
#: OAS Parameter Object: header parameters of these names "SHALL be ignored".
IGNORED = frozenset({"accept", "content-type", "authorization"})
_STYLES = {"path": "simple", "query": "form", "querystring": "form", "header": "simple", "cookie": "form"}
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+*-]+/[\w!#$&^.+*-]+\s*(;.*)?", re.ASCII)
_HOPS = 60


class UnresolvedError(LookupError):
    """Raised for a reference without a target in the document."""


@dataclass(frozen=True)
class LiteralParameter:
    """A parameter of an operation, after path and operation level were merged."""

    name: str
    place: str
    required: bool
    style: str
    explode: bool
    reserved: bool
    content_type: str | None
    schema: Any
    pointer: str
    may_be_empty: bool = False

    @property
    def ignored(self) -> bool:
        """Whether OpenAPI says that the parameter is ignored."""
        return self.place == "header" and self.name.lower() in IGNORED


@dataclass(frozen=True)
class LiteralBody:
    """The request body: its media types in the order of the document."""

    required: bool
    content: dict[str, Json]
    pointer: str


@dataclass
class LiteralOperation:
    """One method of one path, with everything that the document says about it."""

    key: str
    method: str
    path: str
    pointer: str
    node: Json
    item: Json
    parameters: list[LiteralParameter] = field(default_factory=list)
    body: LiteralBody | None = None

    @property
    def placeholders(self) -> list[str]:
        """The names in braces of the path template, in order; RFC 6570 query expansions are not such."""
        return list(dict.fromkeys(re.findall(r"\{([^{}/?#&]+)\}", self.path.split("#", 1)[0])))


class Reading:
    """One document and its operations."""

    def __init__(self, raw: Json, url: str) -> None:
        self.raw = raw
        self.url = url
        self.v31 = str(raw.get("openapi", "")).startswith("3.1")

    def at(self, reference: str) -> Any:
        """Return the target of a local reference. Raises UnresolvedError."""
        if not reference.startswith("#"):
            raise UnresolvedError(reference)
        # RFC 6901 section 6: the fragment is percent-decoded first. Keys with a literal `%7B` exist, too.
        for fragment in (unquote(reference[1:]), reference[1:]):
            try:
                return self._walk(fragment, _HOPS)
            except UnresolvedError:
                continue
        raise UnresolvedError(reference)

    def _walk(self, fragment: str, hops: int) -> Any:
        node: Any = self.raw
        for token in fragment.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key not in node and isinstance(node.get("$ref"), str) and hops:
                node = self._walk(unquote(node["$ref"][1:]), hops - 1)
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
                node = node[int(key)]
            else:
                raise UnresolvedError(fragment)
        return node

    def follow(self, node: Any) -> Any:
        """Return the node at the end of a chain of references. Raises UnresolvedError."""
        for _ in range(_HOPS):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                return node
            node = self.at(node["$ref"])
        raise UnresolvedError("endless")

    def operations(self) -> Iterator[LiteralOperation]:
        """Yield every operation of `paths`. The targets of its references may be missing: see `defect`."""
        paths = self.raw.get("paths")
        for path, item in paths.items() if isinstance(paths, dict) else ():
            if not path.startswith("/") and path.lower().startswith("x-"):
                continue
            at = "/paths/" + path.replace("~", "~0").replace("/", "~1")
            whole = self._item(item)
            for method in _METHODS:
                if isinstance(whole.get(method), dict):
                    yield self._operation(path, method, f"{at}/{method}", whole)

    def _item(self, item: Any) -> Json:
        if not isinstance(item, dict):
            return {}
        if isinstance(item.get("$ref"), str):
            try:
                behind = self.follow(item)
            except UnresolvedError:
                return {}
            return {**behind, **{key: value for key, value in item.items() if key != "$ref"}}
        return item

    def _operation(self, path: str, method: str, at: str, item: Json) -> LiteralOperation:
        made = LiteralOperation(f"{method.upper()} {path}", method.upper(), path, at, item[method], item)
        merged: dict[tuple[str, str], LiteralParameter] = {}
        for level, where in (
            (item.get("parameters"), at.rpartition("/")[0]),
            (made.node.get("parameters"), at),
        ):
            for index, one in enumerate(level if isinstance(level, list) else ()):
                parameter = self._parameter(one, f"{where}/parameters/{index}")
                if parameter is not None:
                    name = parameter.name.lower() if parameter.place == "header" else parameter.name
                    merged[name, parameter.place] = parameter
        made.parameters = list(merged.values())
        made.body = self._body(made.node.get("requestBody"), f"{at}/requestBody")
        return made

    def _parameter(self, node: Any, at: str) -> LiteralParameter | None:
        """Return the parameter, or None: without a name, with an unknown location, or missing."""
        try:
            node = self.follow(node)
        except UnresolvedError:
            return None
        if not isinstance(node, dict) or not isinstance(node.get("name"), str) or not node["name"]:
            return None
        place = node.get("in")
        if place not in _PLACES:
            return None
        style = node.get("style") if isinstance(node.get("style"), str) else _STYLES[place]
        explode = node.get("explode")
        content = node.get("content")
        content = content if isinstance(content, dict) and "schema" not in node else {}
        media = next(iter(content), None)
        schema = ((content[media] or {}) if media is not None else node).get("schema", {})
        return LiteralParameter(
            name=node["name"],
            place=place,
            required=place == "path" or node.get("required") is True,
            style=str(style),
            explode=explode if isinstance(explode, bool) else style in ("form", "deepObject", "cookie"),
            reserved=node.get("allowReserved") is True,
            content_type=media,
            schema=schema,
            pointer=at,
            may_be_empty=node.get("allowEmptyValue") is True,
        )

    def _body(self, node: Any, at: str) -> LiteralBody | None:
        try:
            node = self.follow(node)
        except UnresolvedError:
            return None
        if not isinstance(node, dict) or not isinstance(node.get("content"), dict) or not node["content"]:
            return None
        # RFC 9110 section 8.3.1: anything but `type/subtype` cannot be sent, and is ignored.
        content = {
            media: one if isinstance(one, dict) else {}
            for media, one in node["content"].items()
            if _MEDIA_TYPE.fullmatch(media)
        }
        return LiteralBody(node.get("required") is True, content, at)

    # Schemas ------------------------------------------------------------------------------------------------

    def read_only(self, schema: Any, depth: int = 8) -> bool:
        """Whether a property SHOULD NOT be sent in a request: by itself, its target or an `allOf` of it."""
        if not isinstance(schema, dict) or not depth:
            return False
        if isinstance(schema.get("$ref"), str):
            if self.v31 and schema.get("readOnly") is True:
                return True
            try:
                return self.read_only(self.at(schema["$ref"]), depth - 1)
            except UnresolvedError:
                return False
        parts = schema.get("allOf")
        return schema.get("readOnly") is True or (
            isinstance(parts, list) and any(self.read_only(part, depth - 1) for part in parts)
        )

    def parts(self, schema: Any) -> list[Json]:
        """A schema as the object schemas that all hold at once: itself, `$ref` and `allOf`, flattened."""
        found: list[Json] = []
        stack, seen = [schema], set[int]()
        while stack:
            one = stack.pop()
            if not isinstance(one, dict) or id(one) in seen:
                continue
            seen.add(id(one))
            if isinstance(one.get("$ref"), str):
                try:
                    stack.append(self.at(one["$ref"]))
                except UnresolvedError:
                    continue
                if not self.v31:
                    continue
            found.append(one)
            if isinstance(one.get("allOf"), list):
                stack.extend(reversed(one["allOf"]))
        return found

"""M16, stratum by stratum: generated operations for each cell of the serialisation tables, from a seed.

What is rare in the corpus (labels, matrices, cookies, pipes) is as frequent here as what is common. For
Swagger 2.0 the converter gets a 2.0 document, and the expected request is that of the same document in 3.x.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.corpus.cases import Case, assess_case
from benchmarks.corpus.reading import Json
from benchmarks.corpus.records import Record
from benchmarks.corpus.strata_32 import STRATA_32
from benchmarks.corpus.strata_servers import SERVER_STRATA

# Without the backslash, which the gateway rejects in paths: a server may read it as the end of a segment.
_ALPHABET = "abcXYZ019 -_.~!$'()*,;:@/?&=+%#[]{}|\"<>^`é日😀"
_COLLECTIONS = {
    "csv": ("form", False), "ssv": ("spaceDelimited", False), "pipes": ("pipeDelimited", False),
    "tsv": ("tabDelimited", False), "multi": ("form", True),
}  # fmt: skip

CaseFactory = Callable[[random.Random], Case]


def _text(rng: random.Random, alphabet: str = _ALPHABET) -> str:
    return rng.choice("abcxyz") + "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 7)))


def _scalar(rng: random.Random, alphabet: str = _ALPHABET) -> Any:
    return rng.choice((_text(rng, alphabet), rng.randint(-9, 10**6), rng.random() < 0.5, 1.5))


def _value(rng: random.Random, kind: str, alphabet: str = _ALPHABET) -> Any:
    if kind == "array":
        return [_scalar(rng, alphabet) for _ in range(rng.randint(1, 4))]
    if kind == "object":
        return {f"k{index}": _scalar(rng, alphabet) for index in range(rng.randint(1, 4))}
    return _scalar(rng, alphabet)


def _named(rng: random.Random, place: str) -> str:
    plain = ["id", "color", "user-id", "X_1", "a.b"]
    return rng.choice(
        plain if place in ("header", "cookie", "path") else [*plain, "$filter", "ids[]", "f[x]", "名"]
    )


def _parameter(place: str, style: str, kinds: tuple[str, ...], **more: Any) -> CaseFactory:
    alphabet = "abcXYZ019-_.~!$'()*;:@/?" if place == "header" else _ALPHABET
    if more.get("allowReserved"):
        alphabet = "abcXYZ019 -_.~!$'()*,;:@/?é日"

    def make(rng: random.Random) -> Case:
        kind = rng.choice(kinds)
        one = {
            "name": _named(rng, place),
            "in": place,
            "style": style,
            "schema": {},
            "required": True,
            **more,
        }
        return Case([one], [_value(rng, kind, alphabet)])

    return make


def _by_content(place: str) -> CaseFactory:
    def make(rng: random.Random) -> Case:
        alphabet = "abc 019{}[]:;" if place == "header" else _ALPHABET
        value = _value(rng, rng.choice(("array", "object")), alphabet)
        content: Json = {"application/json": {"schema": {}}}
        return Case(
            [{"name": _named(rng, place), "in": place, "content": content, "required": True}], [value]
        )

    return make


def _bodied(
    media: str, value: Any, *, schema: Json | None = None, files: frozenset[str] = frozenset(), **of: Any
) -> Case:
    content = {media: {"schema": schema or {}, **of}}
    return Case(body={"required": True, "content": content}, value=value, files=files)


def _urlencoded(rng: random.Random) -> Case:
    value = {f"f{i}": _value(rng, rng.choice(("scalar", "array"))) for i in range(rng.randint(1, 4))}
    return _bodied("application/x-www-form-urlencoded", value)


def _urlencoded_encoding(rng: random.Random) -> Case:
    cells = {
        "deep": ({"style": "deepObject", "explode": True}, "object"),
        "list": ({"style": "form", "explode": False}, "array"),
        "many": ({"style": "form", "explode": True}, "array"),
        "pipe": ({"style": "pipeDelimited", "explode": False}, "array"),
        "space": ({"style": "spaceDelimited", "explode": False}, "array"),
        "json": ({"contentType": "application/json"}, "object"),
        "plain": ({}, "object"),
    }
    names = rng.sample(sorted(cells), rng.randint(1, 4))
    # A delimiter inside a value of a delimited list cannot be told from the delimiter once it is decoded.
    value = {name: _value(rng, cells[name][1]) for name in names}
    return _bodied(
        "application/x-www-form-urlencoded", value, encoding={n: cells[n][0] for n in names if cells[n][0]}
    )


def _multipart(rng: random.Random) -> Case:
    value = {
        f"f{i}": _value(rng, rng.choice(("scalar", "array", "object"))) for i in range(rng.randint(1, 4))
    }
    return _bodied("multipart/form-data", value)


def _multipart_files(rng: random.Random) -> Case:
    binary = {"type": "string", "format": "binary"}
    schema = {
        "properties": {"one": binary, "many": {"type": "array", "items": binary}, "note": {"type": "string"}}
    }
    value = {"one": _bytes(rng), "many": [_bytes(rng), _bytes(rng)], "note": _text(rng)}
    chosen = {name: value[name] for name in rng.sample(sorted(value), rng.randint(1, 3))}
    encoding = {"one": {"contentType": "image/png"}} if rng.random() < 0.5 else {}
    files = frozenset({"one", "many"})
    return _bodied("multipart/form-data", chosen, schema=schema, files=files, encoding=encoding)


def _multipart_json(rng: random.Random) -> Case:
    encoding = {"meta": {"contentType": "application/json"}, "note": {"contentType": "text/plain"}}
    value = {"meta": _value(rng, rng.choice(("array", "object", "scalar"))), "note": _text(rng)}
    return _bodied("multipart/form-data", value, encoding=encoding)


def _xml_property(rng: random.Random, depth: int) -> tuple[Json, Any]:
    """Return the schema of a property in XML, and a value of it."""
    xml: Json = {}
    if rng.random() < 0.3:
        xml["name"] = f"x-{rng.randrange(10**6)}.y"
    if rng.random() < 0.3:
        xml |= {"namespace": rng.choice(("urn:a", "urn:b")), "prefix": rng.choice(("p", "q"))}
    kind = rng.choice(("text", "number", "attribute", "list", "wrapped", "object"))
    if kind == "object" and depth < 2:
        schema, value = _xml_object(rng, depth + 1)
        return {**schema, "xml": xml}, value
    if kind in ("list", "wrapped"):
        items: Json = {"type": "string"}
        if rng.random() < 0.5:
            items["xml"] = {"name": f"item{rng.randrange(10**6)}"}
        texts = [_text(rng) for _ in range(rng.randint(0 if kind == "wrapped" else 1, 3))]
        if kind == "wrapped":
            xml["wrapped"] = True
        else:
            xml.pop("namespace", None)
            xml.pop("prefix", None)
        return {"type": "array", "items": items, "xml": xml}, texts
    if kind == "attribute":
        xml["attribute"] = True
    if kind == "number":
        return {"type": "number", "xml": xml}, rng.choice((7, -1, 1.5))
    return {"type": "string", "xml": xml}, _text(rng)


def _xml_object(rng: random.Random, depth: int = 0) -> tuple[Json, Json]:
    properties: Json = {}
    value: Json = {}
    for number in range(rng.randint(1, 4)):
        # Two attributes of one element must not have one name.
        name = f"f{number}"
        properties[name], value[name] = _xml_property(rng, depth)
        if properties[name].get("xml", {}).get("attribute"):
            properties[name]["xml"].pop("name", None)
    names = list(value)
    rng.shuffle(names)
    return {"type": "object", "properties": properties}, {name: value[name] for name in names}


def _xml_objects(rng: random.Random) -> Case:
    schema, value = _xml_object(rng)
    root: Json = {"name": rng.choice(("root", "Root-1"))}
    if rng.random() < 0.5:
        root["namespace"] = "urn:root"
    return _bodied("application/xml", value, schema={**schema, "xml": root})


def _xml_list(rng: random.Random) -> Case:
    schema, _ = _xml_object(rng, 2)
    value = [{name: _xml_value_of(one, rng) for name, one in schema["properties"].items()} for _ in range(2)]
    items = {**schema, "xml": {"name": "one"}}
    return _bodied("text/xml", value, schema={"type": "array", "items": items, "xml": {"name": "all"}})


def _xml_value_of(schema: Json, rng: random.Random) -> Any:
    kind = schema["type"]
    return {"array": [_text(rng)], "number": 1.5, "object": {}}.get(kind, _text(rng))


def _xml_root(rng: random.Random) -> Case:
    """The schema does not name the root: it is the only member of the value."""
    schema, value = _xml_object(rng)
    if rng.random() < 0.5:
        wrapper: Json = {"type": "object", "properties": {"Wrapper": schema}}
        return _bodied("application/xml", {"Wrapper": value}, schema=wrapper)
    schema["properties"]["more"] = {"type": "string"}
    schema["properties"]["still"] = {"type": "string"}
    return _bodied("application/soap+xml", {"Root": value}, schema=schema)


def _file_objects(rng: random.Random) -> Case:
    binary = {"type": "string", "format": "binary"}
    schema = {"properties": {"one": binary, "many": {"type": "array", "items": binary}}}
    value = {"one": _file(rng), "many": [_file(rng) for _ in range(rng.randint(1, 3))]}
    encoding = {"one": {"contentType": "text/csv, image/png"}} if rng.random() < 0.5 else {}
    files = frozenset({"one", "many"})
    return _bodied("multipart/form-data", value, schema=schema, files=files, encoding=encoding)


def _file(rng: random.Random) -> Any:
    name = rng.choice(("a.csv", "größe 1.png", "b"))
    media = rng.choice(("text/csv", "image/png"))
    return rng.choice(
        (
            _bytes(rng),
            {"data": _bytes(rng), "filename": name},
            {"data": _bytes(rng), "filename": name, "content_type": media},
            {"text": _text(rng), "filename": name, "content_type": media},
            {"text": _text(rng)},
        )
    )


def _bytes(rng: random.Random) -> str:
    return rng.choice(("QUJD", "AAEC/w==", "iVBORw0KGgo=", "LS0NCg=="))


def _collisions(rng: random.Random) -> Case:
    name = rng.choice(("id", "body", "X-1"))
    places = rng.sample(("path", "query", "header", "cookie"), rng.randint(2, 4))
    parameters = [
        {"name": name, "in": place, "required": True, "schema": {"type": "string"}} for place in places
    ]
    made = _bodied("application/json", {name: _text(rng)})
    made.parameters, made.values = parameters, [f"v{index}" for index in range(len(places))]
    return made


def _v2(place: str) -> CaseFactory:
    def make(rng: random.Random) -> Case:
        format_ = rng.choice([one for one in _COLLECTIONS if place in ("query", "formData") or one == "csv"])
        style, explode = _COLLECTIONS[format_]
        style = "simple" if place in ("path", "header") else style
        name = _named(rng, "path")
        alphabet = "abcXYZ019-_~"
        value = _value(rng, "array", alphabet)
        node = {
            "name": name,
            "in": place,
            "type": "array",
            "items": {},
            "collectionFormat": format_,
            "required": True,
        }
        operation: Json = {"parameters": [node], "responses": {}}
        if place == "formData":
            operation["consumes"] = ["application/x-www-form-urlencoded"]
            encoding = {name: {"style": style, "explode": explode}}
            case = _bodied("application/x-www-form-urlencoded", {name: value}, encoding=encoding)
        else:
            one = {
                "name": name,
                "in": place,
                "style": style,
                "explode": explode,
                "schema": {},
                "required": True,
            }
            case = Case([one], [value])
        head = {"swagger": "2.0", "host": "api.example.com", "basePath": "/v1", "schemes": ["https"]}
        case.twin = {**head, "paths": {case.path: {"post": operation}}}
        return case

    return make


def _v2_file(rng: random.Random) -> Case:
    case = _bodied("multipart/form-data", {"f": _bytes(rng), "n": _text(rng)}, files=frozenset({"f"}))
    fields = [
        {"name": "f", "in": "formData", "type": "file"},
        {"name": "n", "in": "formData", "type": "string"},
    ]
    head = {"swagger": "2.0", "host": "api.example.com", "basePath": "/v1", "schemes": ["https"]}
    operation = {"consumes": ["multipart/form-data"], "parameters": fields, "responses": {}}
    case.twin = {**head, "paths": {case.path: {"post": operation}}}
    return case


_ANY = ("scalar", "array", "object")
_MANY = ("array", "object")
STRATA: dict[str, CaseFactory] = {
    "query form exploded": _parameter("query", "form", _ANY, explode=True),
    "query form": _parameter("query", "form", _ANY, explode=False),
    "query space delimited": _parameter("query", "spaceDelimited", _MANY, explode=False),
    "query pipe delimited": _parameter("query", "pipeDelimited", _MANY, explode=False),
    "query deepObject": _parameter("query", "deepObject", ("object",), explode=True),
    "query allowReserved": _parameter("query", "form", _ANY, explode=True, allowReserved=True),
    "query content": _by_content("query"),
    **{
        f"path {style}{' exploded' if explode else ''}": _parameter("path", style, _ANY, explode=explode)
        for style in ("simple", "label", "matrix")
        for explode in (False, True)
    },
    "header": _parameter("header", "simple", _ANY, explode=False),
    "header exploded": _parameter("header", "simple", _ANY, explode=True),
    "header content": _by_content("header"),
    "cookie": _parameter("cookie", "form", _ANY, explode=False),
    "cookie exploded": _parameter("cookie", "form", ("scalar",), explode=True),
    "JSON": lambda rng: _bodied("application/json", _value(rng, rng.choice(_ANY))),
    "+json": lambda rng: _bodied("application/merge-patch+json", _value(rng, "object")),
    "urlencoded": _urlencoded,
    "urlencoded encoding": _urlencoded_encoding,
    "multipart": _multipart,
    "multipart JSON parts": _multipart_json,
    "multipart files": _multipart_files,
    "octet-stream": lambda rng: _bodied("application/octet-stream", _bytes(rng)),
    "text": lambda rng: _bodied("text/plain", _text(rng), schema={"type": "string"}),
    "XML": lambda rng: _bodied("application/xml", f"<a>{_text(rng, 'abcé日')}</a>"),
    "XML objects": _xml_objects,
    "XML list": _xml_list,
    "XML root": _xml_root,
    "multipart file objects": _file_objects,
    "collisions": _collisions,
    **{f"2.0 collectionFormat {place}": _v2(place) for place in ("query", "path", "header", "formData")},
    "2.0 file": _v2_file,
}


OWN_INPUTS = frozenset({"XML objects", "XML list", "XML root", "multipart file objects"})
"""The strata whose arguments are of a form that only this gateway defines, or that swagger-client does not
serialise.
"""

EVERY_STRATUM = STRATA | STRATA_32
"""With those of OpenAPI 3.2, which other implementations do not know."""


def cases_of(name: str, seed: str, each: int) -> list[Case]:
    """Return cases of a stratum, the same for the same seed."""
    factories = EVERY_STRATUM | SERVER_STRATA
    return [factories[name](random.Random(f"{seed} {name} {number}")) for number in range(each)]


def assess_strata(seed: str, each: int) -> Iterator[Record]:
    """Check `each` cases of every stratum, with requests by the compiled plan of the converted tool."""
    for name in EVERY_STRATUM | SERVER_STRATA:
        yield from (assess_case(case, name) for case in cases_of(name, seed, each))

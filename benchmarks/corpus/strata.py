"""M16, stratum by stratum: generated operations for each cell of the serialisation tables, from a seed.

What is rare in the corpus (labels, matrices, cookies, pipes) is here as often as what is common. For Swagger
2.0 the converter gets a 2.0 document, and the tables are asked about its twin in the words of 3.x.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.corpus.cases import Case, judge_case
from benchmarks.corpus.reading import Json
from benchmarks.corpus.records import Record

# Without the backslash, which the gateway rejects in paths: a server may read it as the end of a segment.
_ALPHABET = "abcXYZ019 -_.~!$'()*,;:@/?&=+%#[]{}|\"<>^`é日😀"
_COLLECTIONS = {
    "csv": ("form", False), "ssv": ("spaceDelimited", False), "pipes": ("pipeDelimited", False),
    "tsv": ("tabDelimited", False), "multi": ("form", True),
}  # fmt: skip


Chance = random.Random


def _text(chance: Chance, alphabet: str = _ALPHABET) -> str:
    return chance.choice("abcxyz") + "".join(chance.choice(alphabet) for _ in range(chance.randint(0, 7)))


def _scalar(chance: Chance, alphabet: str = _ALPHABET) -> Any:
    return chance.choice((_text(chance, alphabet), chance.randint(-9, 10**6), chance.random() < 0.5, 1.5))


def _value(chance: Chance, kind: str, alphabet: str = _ALPHABET) -> Any:
    if kind == "array":
        return [_scalar(chance, alphabet) for _ in range(chance.randint(1, 4))]
    if kind == "object":
        return {f"k{index}": _scalar(chance, alphabet) for index in range(chance.randint(1, 4))}
    return _scalar(chance, alphabet)


def _named(chance: Chance, place: str) -> str:
    plain = ["id", "color", "user-id", "X_1", "a.b"]
    return chance.choice(
        plain if place in ("header", "cookie", "path") else [*plain, "$filter", "ids[]", "f[x]", "名"]
    )


def _parameter(place: str, style: str, kinds: tuple[str, ...], **more: Any) -> Callable[[Chance], Case]:
    alphabet = "abcXYZ019-_.~!$'()*;:@/?" if place == "header" else _ALPHABET
    if more.get("allowReserved"):
        alphabet = "abcXYZ019 -_.~!$'()*,;:@/?é日"

    def make(chance: Chance) -> Case:
        kind = chance.choice(kinds)
        one = {
            "name": _named(chance, place),
            "in": place,
            "style": style,
            "schema": {},
            "required": True,
            **more,
        }
        return Case([one], [_value(chance, kind, alphabet)])

    return make


def _by_content(place: str) -> Callable[[Chance], Case]:
    def make(chance: Chance) -> Case:
        alphabet = "abc 019{}[]:;" if place == "header" else _ALPHABET
        value = _value(chance, chance.choice(("array", "object")), alphabet)
        content: Json = {"application/json": {"schema": {}}}
        return Case(
            [{"name": _named(chance, place), "in": place, "content": content, "required": True}], [value]
        )

    return make


def _bodied(
    media: str, value: Any, *, schema: Json | None = None, files: frozenset[str] = frozenset(), **of: Any
) -> Case:
    content = {media: {"schema": schema or {}, **of}}
    return Case(body={"required": True, "content": content}, value=value, files=files)


def _urlencoded(chance: Chance) -> Case:
    value = {f"f{i}": _value(chance, chance.choice(("scalar", "array"))) for i in range(chance.randint(1, 4))}
    return _bodied("application/x-www-form-urlencoded", value)


def _urlencoded_encoding(chance: Chance) -> Case:
    cells = {
        "deep": ({"style": "deepObject", "explode": True}, "object"),
        "list": ({"style": "form", "explode": False}, "array"),
        "many": ({"style": "form", "explode": True}, "array"),
        "pipe": ({"style": "pipeDelimited", "explode": False}, "array"),
        "space": ({"style": "spaceDelimited", "explode": False}, "array"),
        "json": ({"contentType": "application/json"}, "object"),
        "plain": ({}, "object"),
    }
    names = chance.sample(sorted(cells), chance.randint(1, 4))
    # A delimiter inside a value of a delimited list cannot be told from the delimiter once it is decoded.
    value = {name: _value(chance, cells[name][1]) for name in names}
    return _bodied(
        "application/x-www-form-urlencoded", value, encoding={n: cells[n][0] for n in names if cells[n][0]}
    )


def _multipart(chance: Chance) -> Case:
    value = {
        f"f{i}": _value(chance, chance.choice(("scalar", "array", "object")))
        for i in range(chance.randint(1, 4))
    }
    return _bodied("multipart/form-data", value)


def _multipart_files(chance: Chance) -> Case:
    binary = {"type": "string", "format": "binary"}
    schema = {
        "properties": {"one": binary, "many": {"type": "array", "items": binary}, "note": {"type": "string"}}
    }
    value = {"one": _bytes(chance), "many": [_bytes(chance), _bytes(chance)], "note": _text(chance)}
    kept = {name: value[name] for name in chance.sample(sorted(value), chance.randint(1, 3))}
    encoding = {"one": {"contentType": "image/png"}} if chance.random() < 0.5 else {}
    files = frozenset({"one", "many"})
    return _bodied("multipart/form-data", kept, schema=schema, files=files, encoding=encoding)


def _multipart_json(chance: Chance) -> Case:
    encoding = {"meta": {"contentType": "application/json"}, "note": {"contentType": "text/plain"}}
    value = {"meta": _value(chance, chance.choice(("array", "object", "scalar"))), "note": _text(chance)}
    return _bodied("multipart/form-data", value, encoding=encoding)


def _bytes(chance: Chance) -> str:
    return chance.choice(("QUJD", "AAEC/w==", "iVBORw0KGgo=", "LS0NCg=="))


def _collisions(chance: Chance) -> Case:
    name = chance.choice(("id", "body", "X-1"))
    places = chance.sample(("path", "query", "header", "cookie"), chance.randint(2, 4))
    parameters = [
        {"name": name, "in": place, "required": True, "schema": {"type": "string"}} for place in places
    ]
    made = _bodied("application/json", {name: _text(chance)})
    made.parameters, made.values = parameters, [f"v{index}" for index in range(len(places))]
    return made


def _v2(place: str) -> Callable[[Chance], Case]:
    def make(chance: Chance) -> Case:
        format_ = chance.choice(
            [one for one in _COLLECTIONS if place in ("query", "formData") or one == "csv"]
        )
        style, explode = _COLLECTIONS[format_]
        style = "simple" if place in ("path", "header") else style
        name = _named(chance, "path")
        alphabet = "abcXYZ019-_~"
        value = _value(chance, "array", alphabet)
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


def _v2_file(chance: Chance) -> Case:
    case = _bodied("multipart/form-data", {"f": _bytes(chance), "n": _text(chance)}, files=frozenset({"f"}))
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
STRATA: dict[str, Callable[[Chance], Case]] = {
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
    "JSON": lambda chance: _bodied("application/json", _value(chance, chance.choice(_ANY))),
    "+json": lambda chance: _bodied("application/merge-patch+json", _value(chance, "object")),
    "urlencoded": _urlencoded,
    "urlencoded encoding": _urlencoded_encoding,
    "multipart": _multipart,
    "multipart JSON parts": _multipart_json,
    "multipart files": _multipart_files,
    "octet-stream": lambda chance: _bodied("application/octet-stream", _bytes(chance)),
    "text": lambda chance: _bodied("text/plain", _text(chance), schema={"type": "string"}),
    "XML": lambda chance: _bodied("application/xml", f"<a>{_text(chance, 'abcé日')}</a>"),
    "collisions": _collisions,
    **{f"2.0 collectionFormat {place}": _v2(place) for place in ("query", "path", "header", "formData")},
    "2.0 file": _v2_file,
}


def cases_of(name: str, seed: str, each: int) -> list[Case]:
    """Return cases of a stratum, the same for the same seed."""
    return [STRATA[name](random.Random(f"{seed} {name} {number}")) for number in range(each)]


def judge_strata(seed: str, each: int) -> Iterator[Record]:
    """Judge `each` cases of every stratum, with requests by the compiled plan of the converted tool."""
    for name in STRATA:
        yield from (judge_case(case, name) for case in cases_of(name, seed, each))

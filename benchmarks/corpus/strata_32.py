"""M16 for what OpenAPI 3.2 adds and for names in other scripts, which other implementations do not know."""

import random
from typing import Any

from benchmarks.corpus.cases import Case
from benchmarks.corpus.reading import Json

_TEXT = "abcXYZ019 -_.~!$'()*,;:@/?&=+%#[]é日😀"
_COOKIE = "abcXYZ019-_.~!$'()*:@/?&%#[]"
_NAMES = ("名前", "größe", "имя", "اسم", "ชื่อ", "名", "naïve", "ключ[и]")
_VERSION = "3.2.0"


def _text(rng: random.Random, alphabet: str = _TEXT) -> str:
    return rng.choice("abcxyz") + "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 7)))


def _scalar(rng: random.Random, alphabet: str = _TEXT) -> Any:
    return rng.choice((_text(rng, alphabet), rng.randint(-9, 10**6), rng.random() < 0.5, 1.5))


def _scalars(rng: random.Random, alphabet: str = _TEXT) -> list[Any]:
    return [_scalar(rng, alphabet) for _ in range(rng.randint(1, 4))]


def _object(rng: random.Random, alphabet: str = _TEXT) -> Json:
    return {f"k{index}": _scalar(rng, alphabet) for index in range(rng.randint(1, 4))}


def _case(parameters: list[Json], values: list[Any], **more: Any) -> Case:
    return Case(parameters, values, version=_VERSION, **more)


def _body(media: str, value: Any, media_object: Json) -> Case:
    return _case([], [], body={"required": True, "content": {media: media_object}}, value=value)


def _query_method(rng: random.Random) -> Case:
    case = _body("application/json", _object(rng), {"schema": {}})
    case.method = "query"
    return case


def _querystring(rng: random.Random, media: str, value: Any) -> Case:
    name = rng.choice(("q", "all", "名"))
    return _case(
        [{"name": name, "in": "querystring", "required": True, "content": {media: {"schema": {}}}}], [value]
    )


def _querystring_form(rng: random.Random) -> Case:
    value = {f"f{i}": rng.choice((_scalar, _scalars))(rng) for i in range(rng.randint(1, 4))}
    return _querystring(rng, "application/x-www-form-urlencoded", value)


def _querystring_json(rng: random.Random) -> Case:
    return _querystring(rng, "application/json", rng.choice((_object, _scalars))(rng))


def _cookie(rng: random.Random) -> Case:
    make = rng.choice((_scalar, _scalars, _object))
    one = {"name": "c", "in": "cookie", "style": "cookie", "explode": rng.random() < 0.5, "required": True}
    return _case([{**one, "schema": {}}], [make(rng, _COOKIE)])


def _name(rng: random.Random) -> Case:
    names = rng.sample(_NAMES, 3)
    parameters = [{"name": name, "in": "query", "required": True, "schema": {}} for name in names]
    return _case(parameters, [_scalar(rng) for _ in names])


STRATA_32 = {
    "3.2 QUERY": _query_method,
    "3.2 querystring form": _querystring_form,
    "3.2 querystring JSON": _querystring_json,
    "3.2 style cookie": _cookie,
    "3.2 JSON lines": lambda rng: _body(
        rng.choice(("application/jsonl", "application/x-ndjson")),
        [rng.choice((_object, _scalar))(rng) for _ in range(rng.randint(1, 4))],
        {"itemSchema": {}},
    ),
    "3.2 JSON text sequence": lambda rng: _body(
        rng.choice(("application/json-seq", "application/geo+json-seq")), _scalars(rng), {"itemSchema": {}}
    ),
    "names in other scripts": _name,
}

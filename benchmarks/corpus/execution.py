"""M15 and M16 of one operation: valid arguments are accepted, invalid ones rejected, requests are exact."""

import binascii
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs

from app.core.errors import InvalidArguments
from benchmarks.corpus import wire, xml_wire
from benchmarks.corpus.addresses import canonical, expected_url
from benchmarks.corpus.bodies import base, is_form, is_json
from benchmarks.corpus.instances import Maker, NoInstanceError
from benchmarks.corpus.operations import Pair
from benchmarks.corpus.reading import Json, LiteralParameter, UnresolvedError
from benchmarks.corpus.records import Record
from benchmarks.corpus.schema_validation import valid

_WRONG: tuple[Any, ...] = ({}, [], "\x01no such", 1.5, True, -1)
_XML = "<a>1</a>"


@dataclass
class Given:
    """Arguments under the document's names, and under the tool's input names."""

    parameters: list[tuple[LiteralParameter, Any]] = field(default_factory=list)
    arguments: Json = field(default_factory=dict)
    media: str | None = None
    body: Any = None
    files: frozenset[str] = frozenset()


def make(pair: Pair, seed: str) -> Given:
    """Return valid arguments for an operation. Raises NoInstanceError, UnresolvedError."""
    maker = Maker(pair.reading, f"{seed} {pair.operation.key}")
    given = Given()
    for index, one in enumerate(pair.wanted):
        entry = pair.entry(one)
        # All required ones, and about half of the others.
        if entry is None or not (one.required or entry["in"] == "path" or (index + len(seed)) % 2):
            continue
        value = maker.value(one.schema)
        if one.place == "path" and value in ("", [], {}):
            # It has no defined form (OAS Style Examples, "empty"): no request is made of it.
            raise NoInstanceError
        given.parameters.append((one, value))
        given.arguments[entry["input"]] = value
    declared = {one.name for one in pair.wanted}
    for entry in pair.plan:
        if entry["in"] == "path" and entry["name"] not in declared:
            given.arguments[entry["input"]] = "alpha"
    literal = pair.operation.body
    if literal is not None and not literal.content:
        raise NoInstanceError
    if literal is not None and pair.body is not None:
        sent = base(pair.body["content_type"])
        chosen = next((m for m in literal.content if base(m) == sent), next(iter(literal.content)))
        given.media = chosen
        schema = literal.content[chosen].get("schema", {"type": "object"} if is_form(chosen) else True)
        given.body = _body(maker, chosen, schema, pair)
        if is_form(chosen) and isinstance(given.body, dict):
            given.files = _files(pair, schema) if "multipart" in chosen else frozenset()
        given.arguments[pair.body["input"]] = given.body
    return given


def _body(maker: Maker, media: str, schema: Any, pair: Pair) -> Any:
    kind = base(media)
    if is_json(media) or is_form(media):
        value = maker.value(schema)
        if is_form(media) and not isinstance(value, dict):
            raise NoInstanceError
        return value
    if kind.endswith(("/xml", "+xml")):
        return _xml_value(maker, schema, pair) if xml_wire.is_structured(pair.reading, schema) else _XML
    if wire.is_text(kind):
        return maker.value(schema)
    return "QUJD"


def _xml_value(maker: Maker, schema: Any, pair: Pair) -> Any:
    """Return a value of the schema; as the only member of an object where it does not name the root."""
    value = maker.value(schema)
    try:
        named = xml_wire.root_name(pair.reading, schema) is not None
    except wire.UndefinedError:
        named = True
    if named or xml_wire.is_wrapper(pair.reading, schema):
        return value
    return {"Root": value}


def _files(pair: Pair, schema: Any) -> frozenset[str]:
    """Return the binary fields: `format: binary` (3.0), or a media type that is not encoded (3.1)."""
    found = set()
    for part in pair.reading.parts(schema):
        properties = part.get("properties")
        for name, one in properties.items() if isinstance(properties, dict) else ():
            inner = [one, *(node.get("items") for node in pair.reading.parts(one))]
            for node in (node for each in inner for node in pair.reading.parts(each)):
                if node.get("format") == "binary" and node.get("type", "string") == "string":
                    found.add(name)
    return frozenset(found)


def check(pair: Pair, plan: Any, seed: str, record: Record) -> None:
    """Check M15, and M16 with arguments that the operation's own schemas allow."""
    try:
        given = make(pair, seed)
    except (NoInstanceError, UnresolvedError, RecursionError):
        return
    try:
        validator = jsonschema_rs.validator_for(pair.tool.inputs)
    except (jsonschema_rs.ValidationError, ValueError) as unreadable:
        record.check("M15 accepted", False, expected="a schema that compiles", got=unreadable)
        return
    problem = next(iter(validator.iter_errors(given.arguments)), None)
    record.check("M15 accepted", problem is None, expected=given.arguments, got=problem and problem.message)
    _check_rejected(pair, given, validator, record)
    if plan is not None and problem is None:
        check_wire(pair, plan, given, "M16 corpus", record)


def _check_rejected(pair: Pair, given: Given, validator: Any, record: Record) -> None:
    for name in given.arguments:
        if name in pair.tool.inputs.get("required", ()):
            fewer = {key: value for key, value in given.arguments.items() if key != name}
            record.check("M15 rejected", not validator.is_valid(fewer), expected=f"rejected without {name}")
    more = {**given.arguments, "no such argument": 1}
    record.check("M15 rejected", not validator.is_valid(more), expected="an unknown argument rejected")
    for one, value in given.parameters:
        entry = pair.entry(one)
        for wrong in _beyond(value, may_be_empty=one.may_be_empty):
            if entry is not None and not _valid(pair, one.schema, wrong):
                rejected = not validator.is_valid({**given.arguments, entry["input"]: wrong})
                got = f"{one.name} = {wrong!r}"[:80]
                record.check("M15 rejected", rejected, expected="beyond the bounds", got=got, at=one.pointer)
        for wrong in _WRONG:
            if entry is not None and not _valid(pair, one.schema, wrong):
                rejected = not validator.is_valid({**given.arguments, entry["input"]: wrong})
                record.check(
                    "M15 rejected", rejected, expected=f"{one.name} = {wrong!r} rejected", at=one.pointer
                )
                break
    literal = pair.operation.body
    if literal is None or given.media is None or pair.body is None or not is_json(given.media):
        return
    schema = literal.content[given.media].get("schema", True)
    for name in given.body if isinstance(given.body, dict) else ():
        for wrong in _WRONG[:3]:
            worse = {**given.body, name: wrong}
            if not _valid(pair, schema, worse):
                rejected = not validator.is_valid({**given.arguments, pair.body["input"]: worse})
                record.check("M15 rejected", rejected, expected=f"body.{name} = {wrong!r} rejected")
                break


def _beyond(value: Any, *, may_be_empty: bool) -> list[Any]:
    """Return values of the same type that enums, bounds, lengths or patterns may exclude."""
    if isinstance(value, str):
        return [value + "\x01", value * 50, *([] if may_be_empty else [""])]
    if isinstance(value, list):
        return [[], value * 60, [value]]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    return [value + 10**9, -abs(value) - 10**9, value + 0.5]


def _valid(pair: Pair, schema: Any, value: Any) -> bool:
    try:
        return valid(pair.reading, schema, value)
    except (UnresolvedError, RecursionError):
        return True


# The wire ---------------------------------------------------------------------------------------------------


def check_wire(pair: Pair, plan: Any, given: Given, metric: str, record: Record) -> None:
    """Place the arguments and compare the request with the tables."""
    try:
        expected = _expected(pair, given)
        if _is_xml_value(given) and pair.operation.body is not None:
            # What has no defined form may be rejected.
            schema = pair.operation.body.content[str(given.media)].get("schema")
            xml_wire.expected(pair.reading, schema, given.body)
    except (wire.UndefinedError, binascii.Error, UnicodeEncodeError):
        return
    if expected is None:
        return
    url, headers, cookies = expected
    try:
        placed = plan.prepare(given.arguments)
    except InvalidArguments as problem:
        detail = [fault.detail for fault in problem.errors]
        if any("segment" in text or "control characters" in text for text in detail):
            return
        record.check(metric, False, expected=url, got=detail)
        return
    got = {name.lower(): value for name, value in placed.headers}
    record.check(
        metric, placed.method == pair.operation.method, expected=pair.operation.method, got=placed.method
    )
    record.check(metric, _parts(placed.url) == _parts(url), expected=url, got=placed.url)
    sent_cookies = sorted(got.pop("cookie", "").split("; ")) if "cookie" in got else []
    same_cookies = sent_cookies == sorted(cookies)
    record.check(metric, same_cookies, expected="; ".join(sorted(cookies)), got="; ".join(sent_cookies))
    content_type = got.pop("content-type", "")
    record.check(metric, _same_headers(got, headers), expected=headers, got=got)
    if given.media is None:
        record.check(metric, placed.body is None, expected="no body", got=placed.body)
        return
    literal = pair.operation.body
    encoding = literal.content[given.media].get("encoding") if literal else {}
    encoding = encoding if isinstance(encoding, dict) else {}
    try:
        sent = content_type, placed.body or b""
        wrong = wire.check_body(given.media, encoding, given.body, given.files, sent)
        if not wrong and literal is not None and _is_xml_value(given):
            schema = literal.content[given.media].get("schema")
            wrong = xml_wire.check_xml(pair.reading, schema, given.body, sent[1])
    except (wire.UndefinedError, binascii.Error):
        return
    record.check(metric, not wrong, expected=given.body, got=wrong)


def _is_xml_value(given: Given) -> bool:
    """Return whether the body is a value that becomes XML."""
    return (
        given.media is not None
        and base(given.media).endswith(("/xml", "+xml"))
        and not isinstance(given.body, str)
    )


def _parts(url: str) -> tuple[str, str, str, list[str]]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc, parts.path or "/", sorted(parts.query.split("&"))


def _same_headers(got: dict[str, str], expected: dict[str, str]) -> bool:
    if got.keys() != expected.keys():
        return False
    for name, value in expected.items():
        if got[name] != value:
            try:
                # JSON in a header may escape what is not ASCII.
                same = json.loads(got[name]) == json.loads(value)
            except ValueError:
                return False
            if not same:
                return False
    return True


def _expected(pair: Pair, given: Given) -> tuple[str, dict[str, str], list[str]] | None:
    url = expected_url(pair.reading, pair.operation)
    if url is None:
        return None
    slots = dict.fromkeys(pair.operation.placeholders, "alpha")
    pairs: list[str] = []
    headers: dict[str, str] = {}
    cookies: list[str] = []
    for one, value in given.parameters:
        spec = wire.Style(one.name, one.style, one.explode, one.reserved)
        is_text = one.content_type is not None and not is_form(one.content_type)
        text = wire.by_content(str(one.content_type), value) if is_text else None
        in_template = one.place == "query" and f"{{{one.name}}}" in pair.operation.path.partition("?")[2]
        if one.place == "path":
            slots[one.name] = wire.path(spec, value) if text is None else wire.encoded(text)
        elif in_template:
            slots[one.name] = wire.encoded(wire.text_of(value))
        elif one.place == "query":
            pairs += (
                wire.query(spec, value)
                if text is None
                else [f"{wire.encoded(one.name)}={wire.encoded(text)}"]
            )
        elif one.place == "querystring":
            form = base(one.content_type or "") == "application/x-www-form-urlencoded"
            pairs += wire.form(value) if form else [wire.encoded(str(text))]
        elif one.place == "header":
            headers[one.name.lower()] = wire.header(spec, value) if text is None else text
        else:
            cookies += wire.cookie(spec, value) if text is None else [f"{one.name}={wire.encoded(text)}"]
    scheme, host, route, query = canonical(url)
    for name, text in slots.items():
        route, query = (part.replace(f"{{{name}}}", text) for part in (route, query))
    whole = f"{scheme}://{host}{route}"
    joined = "&".join([*([query] if query else []), *pairs])
    return f"{whole}?{joined}" if joined else whole, headers, cookies

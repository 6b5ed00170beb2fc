"""M2, M3 and M7 to M14 of one operation: names, parameters, body, address and credentials."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urljoin, urlsplit

from app.core.errors import InvalidInput
from app.openapi import ConvertedTool
from app.openapi.conversion.results import SecuritySchemeSlot
from app.protocols.requests.plan_compiler import compile_plan
from benchmarks.corpus.addresses import canonical, expected_url
from benchmarks.corpus.reading import Json, LiteralOperation, LiteralParameter, Reading
from benchmarks.corpus.records import Record

_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What a client of a shared gateway must not set, whatever a document says; docs/openapi.md gives the reasons.
_WITHHELD = frozenset(
    {"host", "content-length", "transfer-encoding", "te", "connection", "upgrade", "keep-alive", "trailer"}
    | {"expect", "cookie", "forwarded", "x-real-ip"}
)
# RFC 6570 operators and router patterns around a placeholder's name: `{+path}`, `{id:[0-9]+}`, `{rest*}`.
_OPERATOR = re.compile(r"[+.;]?([A-Za-z0-9_.-]+)(?:\*|:.*)?")


@dataclass(frozen=True)
class Pair:
    """An operation of the document, and the tool that it was converted to."""

    reading: Reading
    operation: LiteralOperation
    tool: ConvertedTool
    slots: dict[str, SecuritySchemeSlot]

    @property
    def plan(self) -> list[Json]:
        """The members of the call template's `parameters`."""
        listed: list[Json] = self.tool.call_template["parameters"]
        return listed

    @property
    def body(self) -> Json | None:
        """The call template's `body`."""
        return self.tool.call_template.get("body")

    @cached_property
    def wanted(self) -> list[LiteralParameter]:
        """The parameters that become arguments: not those that are ignored, unsendable or credentials."""
        return [one for one in self.operation.parameters if self.is_input(one)]

    def is_input(self, one: LiteralParameter) -> bool:
        """Return whether a parameter of the document becomes an argument."""
        name = one.name.lower()
        if one.ignored or (one.place == "path" and one.name not in self.operation.placeholders):
            return False
        if one.place in ("header", "cookie") and not _TOKEN.fullmatch(one.name):
            return False
        withheld = name in _WITHHELD or name.startswith(("proxy-", "x-forwarded-"))
        return (one.name, one.place) not in self.keys and not (one.place == "header" and withheld)

    @cached_property
    def keys(self) -> set[tuple[str, str]]:
        """(name, location) of the API keys that the operation requires: stored credentials set them."""
        schemes = self.reading.raw.get("components", {}).get("securitySchemes", {})
        found = set()
        for alternative in literal_security(self.reading, self.operation):
            for name in alternative:
                scheme = schemes.get(name) if isinstance(schemes, dict) else None
                if isinstance(scheme, dict) and scheme.get("type") == "apiKey":
                    found.add((str(scheme.get("name")), str(scheme.get("in"))))
        return found | {
            (one.name, "header")
            for one in self.operation.parameters
            if (one.name.lower(), "header") in {(name.lower(), place) for name, place in found}
        }

    def entry(self, one: LiteralParameter) -> Json | None:
        """Return the plan's entry for a parameter; query placeholders of the template count as path ones."""
        for entry in self.plan:
            same = (
                entry["name"].lower() == one.name.lower()
                if one.place == "header"
                else entry["name"] == one.name
            )
            if same and entry["in"] == one.place:
                return entry
        if one.place == "query" and one.name in self.operation.placeholders:
            return next(
                (entry for entry in self.plan if entry["name"] == one.name and entry["in"] == "path"), None
            )
        return None


def literal_security(reading: Reading, operation: LiteralOperation) -> list[dict[str, list[str]]]:
    """Return the security alternatives of an operation, each as scheme -> scopes."""
    listed = operation.node.get("security")
    listed = reading.raw.get("security") if listed is None else listed
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def check_parameters(pair: Pair, record: Record) -> None:
    """M7, M8, M9, and M10 as far as parameters are concerned."""
    inputs = pair.tool.inputs
    properties, required = inputs["properties"], set(inputs.get("required", ()))
    for key in properties:
        record.check("M7", _KEY.fullmatch(key) is not None, expected="a legal key", got=key)
    record.check("M7", True)
    _placeholders(pair, record, required)
    taken = [entry["input"] for entry in pair.plan] + ([pair.body["input"]] if pair.body else [])
    wanted = pair.wanted
    names = [one.name for one in wanted] + (["body"] if pair.operation.body else [])
    apart = len(set(taken)) == len(taken) and set(taken) == set(properties)
    if len(set(names)) < len(names) or {one.name for one in wanted} & _body_properties(pair):
        record.check("M9 collisions", apart, expected=sorted(names), got=taken)
    record.check("M9 parameters", apart, expected="an input of its own for each", got=taken)
    known = set()
    for one in wanted:
        entry = pair.entry(one)
        if not record.check(
            "M9 parameters", entry is not None, expected=f"{one.place} {one.name}", at=one.pointer
        ):
            continue
        if entry is None:
            continue
        known.add(entry["input"])
        _same_wire(one, entry, record)
        record.check(
            "M10", (entry["input"] in required) == (one.required or entry["in"] == "path"),
            expected=f"{one.name} required: {one.required}", got=sorted(required), at=one.pointer,
        )  # fmt: skip
    surplus = [entry["name"] for entry in pair.plan if entry["input"] not in known and entry["in"] != "path"]
    record.check("M9 parameters", not surplus, expected="no other parameters", got=surplus)


def _placeholders(pair: Pair, record: Record, required: set[str]) -> None:
    names = set()
    for written in pair.operation.placeholders:
        found = _OPERATOR.fullmatch(written)
        declared = any(one.name == written for one in pair.operation.parameters)
        names.add(written if declared or found is None else found[1])
    for name in names:
        entry = next((one for one in pair.plan if one["name"] == name and one["in"] == "path"), None)
        ok = entry is not None and entry["input"] in required
        ok = ok and f"{{{name}}}" in pair.tool.call_template["url"]
        record.check("M8", ok, expected=f"{{{name}}} as a required input", got=pair.tool.call_template["url"])
    extra = [one["name"] for one in pair.plan if one["in"] == "path" and one["name"] not in names]
    record.check("M8", not extra, expected=sorted(names), got=extra)


def _same_wire(one: LiteralParameter, entry: Json, record: Record) -> None:
    if entry["in"] != one.place:
        return
    if one.content_type is not None:
        media = one.content_type.partition(";")[0].strip()
        # A media range does not determine how the value is serialised.
        same = "*" in media or (entry["content_type"] or "").partition(";")[0] == media
        record.check("M9 parameters", same, expected=one.content_type, got=entry, at=one.pointer)
        return
    styles = {"path": ("simple", "label", "matrix"), "header": ("simple",), "cookie": ("form",)}
    legal = styles.get(one.place, ("form", "spaceDelimited", "pipeDelimited", "deepObject"))
    if one.style not in legal:
        return
    got = entry["style"], entry["explode"], entry["allow_reserved"], entry["content_type"]
    explode = one.explode or one.style == "deepObject"
    expected = one.style, explode, one.reserved, None
    record.check("M9 parameters", got == expected, expected=expected, got=got, at=one.pointer)


def _body_properties(pair: Pair) -> set[str]:
    body = pair.operation.body
    schemas = [one.get("schema") for one in body.content.values()] if body else []
    found: set[str] = set()
    for schema in schemas:
        for part in pair.reading.parts(schema):
            if isinstance(part.get("properties"), dict):
                found |= set(part["properties"])
    return found


def check_address(pair: Pair, record: Record) -> None:
    """M2's method and M13."""
    template = pair.tool.call_template
    record.check("M2", template["http_method"] == pair.operation.method, got=template["http_method"])
    url = template["url"]
    absolute = re.match(r"https?://[^/?#{}\s]+", url) is not None
    record.check("M13 absolute", absolute, expected="an absolute URL", got=url)
    expected = expected_url(pair.reading, pair.operation)
    if expected is None:
        return
    for written in pair.operation.placeholders:
        found = _OPERATOR.fullmatch(written)
        declared = any(one.name == written for one in pair.operation.parameters)
        if not declared and found is not None:
            expected = expected.replace(f"{{{written}}}", f"{{{found[1]}}}")
    record.check("M13 exact", canonical(url) == canonical(expected), expected=expected, got=url)


def check_plan(pair: Pair, record: Record) -> Any:
    """M12's encoder and M8's template: the plan compiles. Returns it, or None."""
    if pair.operation.method == "TRACE":
        return None
    try:
        return compile_plan(pair.tool.call_template)
    except InvalidInput as problem:
        record.check(
            "M12", False, expected="a plan that compiles", got=[fault.detail for fault in problem.errors]
        )
        return None


def check_security(pair: Pair, record: Record) -> None:
    """M14: the same alternatives, the same scopes, and no ignored header among the inputs."""
    expected = literal_security(pair.reading, pair.operation)
    metric = "M14 secured" if any(expected) else "M14 public"
    got = [{pair.slots[need.slot].scheme: list(need.scopes) for need in one} for one in pair.tool.security]
    unique = [one for index, one in enumerate(expected) if one not in expected[:index]]
    record.check(metric, got == unique, expected=unique, got=got)
    schemes = pair.reading.raw.get("components", {}).get("securitySchemes", {})
    for alternative in pair.tool.security:
        for need in alternative:
            _slot(pair.slots[need.slot], schemes, pair.reading, record)
    ignored = [one.name.lower() for one in pair.operation.parameters if one.ignored]
    if ignored:
        offered = [
            one["name"] for one in pair.plan if one["in"] == "header" and one["name"].lower() in ignored
        ]
        record.check("M14 ignored headers", not offered, expected="none of them", got=offered)


def _slot(slot: SecuritySchemeSlot, schemes: Any, reading: Reading, record: Record) -> None:
    scheme = schemes.get(slot.scheme) if isinstance(schemes, dict) else None
    if not isinstance(scheme, dict):
        record.check("M14 secured", slot.kind == "unsupported", expected="undefined", got=slot)
        return
    scheme = reading.follow(scheme)
    kind = scheme.get("type"), str(scheme.get("scheme", "")).lower()
    expected = {"apiKey": "api_key", "oauth2": "oauth2"}.get(str(kind[0]), "unsupported")
    if kind[0] == "http" and kind[1] in ("basic", "bearer", "digest"):
        expected = kind[1]
    if (
        expected == "api_key"
        and scheme.get("in") != "query"
        and not _TOKEN.fullmatch(str(scheme.get("name")))
    ):
        # No header or cookie can have such a name (RFC 9110 section 5.6.2).
        expected = "unsupported"
    if str(scheme.get("x-amazon-apigateway-authtype", "")).lower() == "awssigv4":
        # AWS declares its signature as an API key in the header Authorization.
        expected = "aws_sigv4"
    ok = slot.kind == expected
    if expected == "api_key":
        ok = ok and (slot.parameter, slot.location) == (scheme.get("name"), scheme.get("in"))
    if expected == "oauth2":
        got = slot.token_url and canonical(slot.token_url)
        ok = ok and got in [one and canonical(one) for one in _token_urls(scheme, reading)]
    record.check("M14 secured", ok, expected=scheme, got=slot)


def _token_urls(scheme: Json, reading: Reading) -> set[str | None]:
    """Return the token URLs: those of flows without a user if there are any, none otherwise."""
    flows = scheme.get("flows")
    flows = flows if isinstance(flows, dict) else {}
    urls = {name: one.get("tokenUrl") for name, one in flows.items() if isinstance(one, dict)}
    machine = urls.get("clientCredentials")
    wanted = [machine] if machine else [one for one in urls.values() if one]
    resolved = {urljoin(reading.url, one.strip()) for one in wanted if isinstance(one, str)}
    usable: set[str | None] = {
        one for one in resolved if urlsplit(one).scheme in ("http", "https") and urlsplit(one).netloc
    }
    return usable or {None}

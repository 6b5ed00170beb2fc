"""Security requirements and credential slots."""

from typing import Any

import pytest

from app.openapi import Conversion, ConvertOptions
from app.openapi.conversion.results import SecuritySchemeSlot
from app.security.requirements import SecurityRequirements, SlotRequirement, compile_security, security_json
from tests.harness.cases import for_each
from tests.unit.openapi.conftest import Convert, ConvertOne

SCHEMES: dict[str, Any] = {
    "key": {"type": "apiKey", "in": "query", "name": "api_key"},
    "login": {"type": "http", "scheme": "BASIC"},
    "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "oauth": {"type": "oauth2", "flows": {
        "implicit": {"authorizationUrl": "https://l.example/a", "scopes": {}},
        "authorizationCode": {"tokenUrl": "https://l.example/code", "scopes": {}},
        "clientCredentials": {"tokenUrl": "https://l.example/token", "scopes": {"a": "A", "b": "B"}},
    }},
}  # fmt: skip


def needs(*alternatives: dict[str, list[str]]) -> SecurityRequirements:
    return tuple(
        tuple(SlotRequirement(slot, tuple(scopes)) for slot, scopes in one.items()) for one in alternatives
    )


@for_each(
    ("root", "own", "became"),
    [
        (None, None, ()),
        ([{"key": []}], None, needs({"key": []})),
        ([{"key": []}], [], ()),
        ([{"key": []}], [{}], ((),)),
        ([{"key": []}], [{"token": []}], needs({"token": []})),
        (None, [{}, {"token": []}], needs({}, {"token": []})),
        (None, [{"key": [], "login": []}], needs({"key": [], "login": []})),
        (None, [{"oauth": ["a"]}, {"key": []}], needs({"oauth": ["a"]}, {"key": []})),
        (None, [{"key": []}, {"key": []}], needs({"key": []})),
        ([{"key": []}], {"token": []}, needs({"token": []})),
        ([{"key": []}], "none", ()),
        (None, [7, {"token": "x"}], needs({"token": []})),
    ],
)
def test_requirements_are_an_or_of_ands(tool: ConvertOne, root: Any, own: Any, became: Any) -> None:
    operation = {} if own is None else {"security": own}
    rest = {} if root is None else {"security": root}
    assert tool(operation, components={"securitySchemes": SCHEMES}, **rest).security == became


def convert_all(converted: Convert, schemes: Any, *, openapi: str = "3.0.0", **rest: Any) -> Conversion:
    security = [{name: [] for name in schemes}]
    if openapi == "2.0":
        return converted(
            {"/x": {"get": {}}}, openapi=openapi, securityDefinitions=schemes, security=security, **rest
        )
    return converted({"/x": {"get": {}}}, components={"securitySchemes": schemes}, security=security, **rest)


def test_slots_say_what_a_credential_must_be(converted: Convert) -> None:
    slots = {slot.name: slot for slot in convert_all(converted, SCHEMES).slots}
    assert {name: slot.kind for name, slot in slots.items()} == {
        "key": "api_key", "login": "basic", "token": "bearer", "oauth": "oauth2",
    }  # fmt: skip
    assert (slots["key"].location, slots["key"].parameter) == ("query", "api_key")
    assert slots["oauth"].token_url == "https://l.example/token"
    assert slots["oauth"].flows == ("implicit", "authorizationCode", "clientCredentials")
    assert {slot.origin_hint for slot in slots.values()} == {"https://api.example.com"}


def test_only_slots_in_use_are_listed_with_all_their_scopes(converted: Convert) -> None:
    paths = {
        "/a": {"get": {"security": [{"oauth": ["a"]}]}, "post": {"security": [{"oauth": ["b", "a"]}]}},
        "/b": {"get": {}},
    }
    [slot] = converted(paths, components={"securitySchemes": SCHEMES}).slots
    assert slot.name == "oauth"
    assert slot.scopes == ("a", "b")


@for_each(
    ("scheme", "kind_of_scheme"),
    [
        ({"type": "http", "scheme": "a b"}, "http a b"),
        ({"type": "http", "scheme": ""}, "http"),
        ({"type": "http"}, "http"),
        ({"type": "apiKey", "in": "body", "name": "k"}, "apiKey"),
        ({"type": "apiKey", "in": "header", "name": "a\r\nb"}, "apiKey"),
        ({"type": "apiKey", "in": "header"}, "apiKey"),
        ({"type": 7}, "7"),
        ({}, "undefined"),
        (None, "undefined"),
        ({"$ref": "#/components/securitySchemes/Gone"}, "undefined"),
    ],
)
def test_what_is_not_supported_stays_a_slot_so_that_no_call_goes_out_without(
    converted: Convert, scheme: Any, kind_of_scheme: str
) -> None:
    conversion = convert_all(converted, {"odd": scheme})
    [slot] = conversion.slots
    assert (slot.kind, slot.scheme_type) == ("unsupported", kind_of_scheme)
    assert conversion.tools[0].security == needs({"odd": []})


@for_each(
    ("scheme", "expected"),
    [
        ({"type": "openIdConnect", "openIdConnectUrl": "https://l.example/o"}, ("oauth2", None, None, "https://l.example/o")),
        ({"type": "openIdConnect", "openIdConnectUrl": "/o"}, ("oauth2", None, None, "https://docs.example.com/o")),
        ({"type": "openIdConnect"}, ("oauth2", None, None, None)),
        ({"type": "oauth2", "oauth2MetadataUrl": "https://l.example/m", "flows": {"implicit": {}}}, ("oauth2", None, None, "https://l.example/m")),
        (
            {"type": "oauth2", "oauth2MetadataUrl": "https://l.example/m", "flows": {"clientCredentials": {"tokenUrl": "https://l.example/t"}}},
            ("oauth2", None, "https://l.example/t", None),
        ),
        ({"type": "http", "scheme": "hoba"}, ("bearer", "hoba", None, None)),
        ({"type": "http", "scheme": " DPoP "}, ("bearer", "DPoP", None, None)),
        ({"type": "http", "scheme": "BEARER"}, ("bearer", None, None, None)),
        ({"type": "mutualTLS"}, ("mutual_tls", None, None, None)),
    ],
)  # fmt: skip
def test_what_else_a_credential_may_be(converted: Convert, scheme: Any, expected: tuple[Any, ...]) -> None:
    options = ConvertOptions(url="https://docs.example.com/api.json")
    conversion = convert_all(converted, {"s": scheme}, options=options)
    [slot] = conversion.slots
    assert (slot.kind, slot.http_scheme, slot.token_url, slot.metadata_url) == expected
    assert SecuritySchemeSlot.from_json(slot.to_json()) == slot
    [[need]] = conversion.tools[0].security
    assert need == ("s", (), slot.kind == "mutual_tls")
    assert compile_security(security_json(conversion.tools[0].security)) == conversion.tools[0].security
    assert not conversion.report.warnings


def test_schemes_may_be_references(converted: Convert) -> None:
    schemes = {"a": {"$ref": "#/components/securitySchemes/b"}, "b": {"type": "http", "scheme": "basic"}}
    assert [slot.kind for slot in convert_all(converted, schemes).slots] == ["basic", "basic"]


@for_each(
    ("written", "became"),
    [
        ("https://l.example/t", "https://l.example/t"),
        ("http://l.example/t", "http://l.example/t"),
        ("/t", "https://docs.example.com/t"),
        ("ftp://l.example", None),
        ("javascript:alert(1)", None),
        (7, None),
    ],
)
def test_token_urls_are_absolute_or_left_out_and_cost_nothing(
    converted: Convert, written: Any, became: Any
) -> None:
    scheme = {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": written, "scopes": {}}}}
    options = ConvertOptions(url="https://docs.example.com/v1/openapi.json", base_url="https://else.example")
    [slot] = convert_all(converted, {"o": scheme}, options=options).slots
    assert (slot.kind, slot.token_url) == ("oauth2", became)


def test_swagger_2_schemes(converted: Convert) -> None:
    schemes = {
        "b": {"type": "basic"},
        "k": {"type": "apiKey", "in": "header", "name": "K"},
        "app": {"type": "oauth2", "flow": "application", "tokenUrl": "https://l.example/t", "scopes": {}},
        "imp": {
            "type": "oauth2",
            "flow": "implicit",
            "authorizationUrl": "https://l.example/a",
            "scopes": {},
        },
    }
    slots = convert_all(converted, schemes, openapi="2.0").slots
    assert [(slot.kind, slot.token_url) for slot in slots] == [
        ("basic", None), ("api_key", None), ("oauth2", "https://l.example/t"), ("oauth2", None),
    ]  # fmt: skip


@for_each("name", ["a b", "ø", "..", "x" * 80, "a/b", ""])
def test_slots_have_names_that_fit_into_a_path(converted: Convert, name: str) -> None:
    [slot] = convert_all(converted, {name: {"type": "http", "scheme": "basic"}}).slots
    assert slot.name.strip(".")
    assert len(slot.name) <= 64
    assert "/" not in slot.name
    assert slot.kind == "basic"


@pytest.mark.parametrize(
    ("scheme", "kind", "location"),
    [
        ({"type": "http", "scheme": "Digest"}, "digest", None),
        (
            {
                "type": "apiKey",
                "in": "header",
                "name": "Authorization",
                "x-amazon-apigateway-authtype": "awsSigv4",
            },
            "aws_sigv4",
            "header",
        ),
    ],
)
def test_schemes_that_sign_requests_are_slots_of_their_kinds(
    converted: Convert, scheme: Any, kind: str, location: str | None
) -> None:
    [slot] = convert_all(converted, {"signed": scheme}).slots
    assert (slot.kind, slot.location) == (kind, location)

"""Compiling an http call template into the plan that turns arguments into one HTTP request.

There are two kinds of templates. One converted from OpenAPI has `parameters`: each is serialised by its
style, and an argument that the document does not have is rejected. In UTCP's own, `{name}` takes the argument
of that name (OpenAPI's simple style), `header_fields` become headers (simple style), `body_field` the body
where the method has one, everything else the query (true/false, null left out, a list repeats its key, an
object is written as JSON). A name that is several of these is used once, as path, header or body, in this
order. Nothing in a value is ever interpreted as a template.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.formats.utcp.auth import convert_field_errors
from app.formats.utcp.headers import HEADER_NAME, forbidden_in_arguments, forbidden_in_credentials
from app.formats.utcp.paths import Placeholder, UrlTemplate, compile_url
from app.formats.utcp.percent import escape, write_scalar
from app.protocols.requests.bodies import body_encoder
from app.protocols.requests.querystring import querystring_encoder
from app.protocols.requests.request_plan import (
    ArgumentPlan,
    BodyArgument,
    PathPlaceholder,
    PreparedRequest,
    StaticHeader,
)
from app.protocols.requests.styles import cookie_encoder, header_encoder, path_encoder, query_encoder
from app.protocols.requests.templates import BodySpec, ParameterSpec, RequestTemplate

__all__ = ["ArgumentPlan", "PreparedRequest", "compile_plan", "compile_plan_without_body"]

# The methods that the IANA HTTP Method Registry lists as safe and that the gateway sends.
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "QUERY", "PROPFIND", "REPORT", "SEARCH"})
_BODILESS_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# OAS Parameter Object: header parameters of these names "SHALL be ignored".
_IGNORED_HEADERS: Final = frozenset({"accept", "content-type", "authorization"})


def compile_plan(template: Mapping[str, Any]) -> ArgumentPlan:
    """Return the plan of a stored http call template (plain JSON, variables substituted).

    Raises InvalidInput, with pointers into the template, for one that can never be called.
    """
    try:
        http = RequestTemplate.model_validate(dict(template))
    except ValidationError as error:
        raise InvalidInput("The call template is not valid", errors=convert_field_errors(error)) from None
    if http.parameters is None:
        if "${" in http.url:
            raise InvalidInput(
                "The call template is not valid",
                errors=[FieldError("/url", "A variable has not been substituted.")],
            )
        return _utcp_plan(http, compile_url(http.url))
    return _openapi_plan(http, http.parameters, compile_url(http.url))


def compile_plan_without_body(
    url: UrlTemplate, *, method: str, headers: Mapping[str, str], header_fields: list[str]
) -> tuple[ArgumentPlan, frozenset[str]]:
    """Return the plan of a request without its body, and the names of the only arguments that it takes.

    These are the arguments of `{name}` in the URL and of `header_fields`. Raises InvalidInput with pointers
    into the template.
    """
    _check_header_fields(header_fields)
    slots = dict.fromkeys(slot.name for slot in url.placeholders)
    fields = [name for name in dict.fromkeys(header_fields) if name not in slots]
    parameters = [
        *(ParameterSpec(input=name, name=name, location="path") for name in slots),
        *(ParameterSpec(input=name, name=name, location="header") for name in fields),
    ]
    http = RequestTemplate.model_construct(url=url.head, http_method=method, headers=dict(headers))
    return _openapi_plan(http, parameters, url), frozenset({*slots, *fields})


def _utcp_plan(http: RequestTemplate, url: UrlTemplate) -> ArgumentPlan:
    inputs = {
        slot.name: ParameterSpec(input=slot.name, name=slot.name, location="path")
        for slot in url.placeholders
    }
    fields = [name for name in dict.fromkeys(http.header_fields) if name not in inputs]
    _check_header_fields(http.header_fields)
    headers = [ParameterSpec(input=name, name=name, location="header") for name in fields]
    static = dict(http.headers)
    content_types = [static.pop(name) for name in list(static) if name.lower() == "content-type"]
    body = None
    if (
        http.body_field is not None
        and http.http_method not in _BODILESS_METHODS
        and http.body_field not in {*inputs, *fields}
    ):
        spec = BodySpec(
            input=http.body_field, content_type=content_types[-1] if content_types else http.content_type
        )
        encode = body_encoder(spec, raw_text=True, at=pointer("", spec.input))
        body = BodyArgument(spec.input, encode, required=False, sends_null=False)
    return ArgumentPlan(
        method=http.http_method,
        origin=url.origin,
        safe=http.http_method in SAFE_METHODS,
        accept=None,
        _head=url.head,
        _placeholders=_placeholders(url, inputs),
        _query_joiner=url.query_separator,
        _check_dot_segments=url.may_form_dots,
        _query=(),
        _takes_any_query=True,
        _known=frozenset({*inputs, *fields} | ({body.input} if body else set())),
        _headers=tuple((spec.input, spec.name, header_encoder(spec)) for spec in headers),
        _cookies=(),
        _static=_static(static, headers),
        _rejected=frozenset(),
        _body=body,
        _outside_url=frozenset(fields) | ({body.input} if body else set()),
        response=http.response,
        _defaults=http.defaults or {},
    )


def _check_header_fields(header_fields: list[str]) -> None:
    for index, name in enumerate(header_fields):
        if not HEADER_NAME.fullmatch(name) or forbidden_in_arguments(name):
            error = FieldError(pointer("/header_fields", index), "No argument may set a header of this name.")
            raise InvalidInput("The call template is not valid", errors=[error])


def _openapi_plan(http: RequestTemplate, parameters: list[ParameterSpec], url: UrlTemplate) -> ArgumentPlan:
    body = http.body
    inputs = [spec.input for spec in parameters] + ([body.input] if body else [])
    if len(set(inputs)) < len(inputs):
        error = FieldError("/parameters", "Each parameter and the body need an input of their own.")
        raise InvalidInput("The call template is not valid", errors=[error])
    placeholders = {slot.name for slot in url.placeholders}
    by_name = {
        spec.name: spec for spec in parameters if spec.location == "query" and spec.name in placeholders
    }
    by_name |= {spec.name: spec for spec in parameters if spec.location == "path"}
    in_place = {spec.input for name, spec in by_name.items() if name in placeholders}
    headers = [spec for spec in parameters if spec.location == "header"]
    ignored = {spec.input for spec in headers if spec.name.lower() in _IGNORED_HEADERS}
    rejected = {
        spec.input
        for spec in headers
        if spec.input not in ignored
        and (forbidden_in_arguments(spec.name) or not HEADER_NAME.fullmatch(spec.name))
    }
    sent = [spec for spec in headers if spec.input not in ignored | rejected]
    static = {
        name: value for name, value in http.headers.items() if not (body and name.lower() == "content-type")
    }
    return ArgumentPlan(
        method=http.http_method,
        origin=url.origin,
        safe=http.http_method in SAFE_METHODS,
        accept=None if any(name.lower() == "accept" for name in http.headers) else http.accept,
        _head=url.head,
        _placeholders=_placeholders(url, by_name),
        _query_joiner=url.query_separator,
        _check_dot_segments=url.may_form_dots,
        _query=tuple(
            (spec.input, querystring_encoder(spec) if spec.location == "querystring" else query_encoder(spec))
            for spec in parameters
            if spec.location in ("query", "querystring") and spec.input not in in_place
        ),
        _takes_any_query=False,
        _known=frozenset(inputs),
        _headers=tuple((spec.input, spec.name, header_encoder(spec)) for spec in sent),
        _cookies=tuple(
            (spec.input, cookie_encoder(spec)) for spec in parameters if spec.location == "cookie"
        ),
        _static=_static(static, sent),
        _rejected=frozenset(rejected),
        _body=None
        if body is None
        else BodyArgument(
            body.input, body_encoder(body, at=pointer("", body.input)), body.required, body.required
        ),
        _outside_url=frozenset(spec.input for spec in headers) | ({body.input} if body else set()),
        response=http.response,
        _defaults=http.defaults or {},
    )


def _placeholders(url: UrlTemplate, inputs: Mapping[str, ParameterSpec]) -> tuple[PathPlaceholder, ...]:
    return tuple(_placeholder(slot, inputs) for slot in url.placeholders)


def _placeholder(slot: Placeholder, inputs: Mapping[str, ParameterSpec]) -> PathPlaceholder:
    spec = inputs.get(slot.name)
    if spec is None:
        error = FieldError("/url", f"No path parameter is declared for {{{slot.name}}}.")
        raise InvalidInput("The call template is not valid", errors=[error])
    if slot.in_path:
        return PathPlaceholder(spec.input, path_encoder(spec), slot.literal_after)
    return PathPlaceholder(spec.input, lambda value: escape(write_scalar(value)), slot.literal_after)


def _static(headers: Mapping[str, str], fields: list[ParameterSpec]) -> tuple[StaticHeader, ...]:
    overrides = {spec.name.lower(): spec.input for spec in fields}
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or forbidden_in_credentials(name) or not _is_sendable(value):
            error = FieldError(pointer("/headers", name), "This header cannot be sent.")
            raise InvalidInput("The call template is not valid", errors=[error])
    return tuple(StaticHeader(name, value, overrides.get(name.lower())) for name, value in headers.items())


def _is_sendable(value: str) -> bool:
    return all(0x20 <= ord(c) < 0x7F or 0xA0 <= ord(c) <= 0xFF or c == "\t" for c in value)

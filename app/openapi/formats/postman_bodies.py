"""Bodies and saved responses of Postman requests as Request Body and Response Objects."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from app.core.secret_names import is_credential_name, may_hold_secret
from app.openapi.formats.examples import (
    has_variable,
    infer_schema,
    infer_secret_schema,
    infer_text_schema,
    parse_json,
)
from app.openapi.model import Json

_LANGUAGES: Final = {
    "json": "application/json",
    "xml": "application/xml",
    "html": "text/html",
    "javascript": "application/javascript",
    "text": "text/plain",
}
_FORM: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
_MAX_RESPONSES: Final = 50
_MAX_EXAMPLE: Final = 900


def convert_request_body(body: Any, *, content_type: str | None) -> Json | None:
    """Return the Request Body Object of a request's `body`; None where it has none.

    `content_type` is that of the request's own headers. What a collection has is an example: it becomes a
    schema that accepts more, and the description or an `example`.
    """
    if not isinstance(body, Mapping) or body.get("disabled") is True:
        return None
    match body.get("mode"):
        case "raw":
            return _convert_raw(body, content_type)
        case "urlencoded":
            return _convert_form(body.get("urlencoded"), content_type or _FORM)
        case "formdata":
            return _convert_form(body.get("formdata"), _MULTIPART)
        case "graphql":
            return _convert_graphql(body.get("graphql"))
        case "file":
            return {"content": {content_type or "application/octet-stream": {}}}
        case _:
            return None


def read_description(text: Any) -> str:
    """Return a description, which is a text or an object with `content`."""
    if isinstance(text, Mapping):
        text = text.get("content")
    return text if isinstance(text, str) else ""


def is_required(description: str) -> bool:
    """Return whether a description begins with "(Required)", which generators of collections write."""
    return description.lstrip().lower().startswith("(required)")


def list_members(listed: Any) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield key, value and description object of the entries of a list that have a key."""
    for member in listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ():
        key = member.get("key") if isinstance(member, Mapping) else None
        if isinstance(key, str) and key.strip():
            value = member.get("value")
            is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
            yield key.strip(), str(value) if is_text else "", member


def convert_responses(saved: Any) -> Json:
    """Return the Responses Object of the saved examples of a request."""
    converted: Json = {}
    for saved_response in saved[:_MAX_RESPONSES] if isinstance(saved, list) else ():
        code = saved_response.get("code") if isinstance(saved_response, Mapping) else None
        if (
            not isinstance(code, int)
            or isinstance(code, bool)
            or not 100 <= code <= 599
            or str(code) in converted
        ):
            continue
        response: Json = {
            "description": str(saved_response.get("name") or saved_response.get("status") or "")
        }
        content_type = next(
            (
                value
                for key, value, _ in list_members(saved_response.get("header"))
                if key.lower() == "content-type"
            ),
            None,
        )
        body = saved_response.get("body")
        if isinstance(body, str) and body.strip():
            value = parse_json(body)
            media_type = content_type or ("application/json" if value is not None else "text/plain")
            schema = {"schema": infer_schema(value)} if value is not None else {}
            response["content"] = {media_type.partition(";")[0].strip(): schema}
        converted[str(code)] = response
    return converted or {"200": {"description": ""}}


def _convert_raw(body: Mapping[str, Any], content_type: str | None) -> Json | None:
    text = body.get("raw")
    if not isinstance(text, str) or not text.strip():
        return None
    raw_options = body.get("options")
    raw_options = raw_options.get("raw") if isinstance(raw_options, Mapping) else None
    language = raw_options.get("language") if isinstance(raw_options, Mapping) else None
    value = parse_json(text)
    media_type = content_type or _LANGUAGES.get(str(language))
    if media_type is None:
        media_type = "application/json" if isinstance(value, dict | list) else "text/plain"
    is_shown = len(text) <= _MAX_EXAMPLE and not may_hold_secret(text)
    example = f"For example:\n{text}" if is_shown else ""
    if "json" in media_type:
        schema: Json = {} if value is None else infer_schema(value)
        if value is None and example:
            schema = {"description": example}
        return {"required": True, "content": {media_type: {"schema": schema}}}
    schema = {"type": "string", **({"description": example} if example else {})}
    return {"required": True, "content": {media_type: {"schema": schema}}}


def _convert_form(listed: Any, media_type: str) -> Json:
    properties: Json = {}
    encoding: Json = {}
    required: list[str] = []
    for key, value, entry in list_members(listed):
        about = read_description(entry.get("description"))
        if entry.get("type") == "file":
            schema: Json = {"type": "string", "format": "binary"}
            if isinstance(entry.get("src"), list) and len(entry["src"]) > 1:
                schema = {"type": "array", "items": schema}
        elif is_credential_name(key):
            schema = infer_secret_schema(value)
        elif "json" in str(entry.get("contentType")):
            schema = infer_schema(parse_json(value))
        else:
            schema = infer_text_schema(value)
        if about:
            schema = {**schema, "description": about}
        if key in properties and entry.get("disabled") is not True:
            # A key that is there twice is sent twice.
            items = properties[key].get("items", properties[key])
            schema = {"type": "array", "items": items}
        properties[key] = schema
        if is_required(about):
            required.append(key)
        if isinstance(entry.get("contentType"), str) and entry["contentType"].strip():
            encoding[key] = {"contentType": entry["contentType"]}
    whole: Json = {"type": "object", "properties": properties}
    if required:
        whole["required"] = list(dict.fromkeys(required))
    media: Json = {"schema": whole, **({"encoding": encoding} if encoding else {})}
    return {"required": bool(required), "content": {media_type: media}}


def _convert_graphql(body: Any) -> Json:
    """Return the body of a GraphQL request over HTTP, whose document is the default of `query`."""
    body = body if isinstance(body, Mapping) else {}
    query, variables = body.get("query"), body.get("variables")
    if isinstance(variables, str):
        variables = parse_json(variables) if variables.strip() else {}
    schema: Json = {"type": "string", "description": "The GraphQL document."}
    if isinstance(query, str) and query.strip() and not may_hold_secret(query):
        if len(query) <= _MAX_EXAMPLE and not has_variable(query):
            schema["default"] = query
        else:
            schema["description"] = f"The GraphQL document, for example:\n{query}"
    inner = infer_schema(variables) if isinstance(variables, dict) else {"type": "object"}
    properties = {"query": schema, "variables": inner, "operationName": {"type": "string"}}
    whole = {"type": "object", "properties": properties, "required": ["query"]}
    return {"required": True, "content": {"application/json": {"schema": whole}}}

"""`http` templates as UTCP clients send them: an OpenAPI operation in UTCP's own members."""

import re
from collections.abc import Mapping
from typing import Any, Final

from app.protocols.record import NotDirect

_SERIALISATION: Final = {"style", "explode", "allow_reserved", "content_type", "encoding", "item_styles"}
_LOCATIONS: Final = frozenset({"path", "query", "header"})
_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
# A released client rejects a whole manual for one tool with another method.
_METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH"})


def without_unsendable(
    fields: Mapping[str, Any], required: frozenset[str]
) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the template without the optional parameters that UTCP cannot send, and the names of their
    arguments.
    """
    if "parameters" not in fields:
        return dict(fields), frozenset()
    dropped = [
        spec for spec in fields["parameters"] if spec["input"] not in required and not _is_sendable(spec)
    ]
    kept = [spec for spec in fields["parameters"] if spec not in dropped]
    return {**fields, "parameters": kept}, frozenset(spec["input"] for spec in dropped)


def native(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template; raise NotDirect for a method that UTCP does not have, where parameters do not go
    where UTCP would put them, and for what the gateway does with arguments and results.
    """
    _check_members(fields)
    if "parameters" not in fields:
        return dict(fields)
    headers: list[str] = []
    path = set(_PLACEHOLDER.findall(fields["url"]))
    for spec in fields["parameters"]:
        location = spec["in"]
        if not _is_sendable(spec):
            raise NotDirect(f"UTCP cannot send the parameter {spec['name']} as the document says.")
        if location == "header":
            headers.append(spec["name"])
        elif location == "path":
            path.discard(spec["name"])
    body = fields.get("body")
    if path or (body is not None and body["content_type"].partition(";")[0].strip() != "application/json"):
        raise NotDirect("UTCP cannot send this request as the document says.")
    members = ("call_template_type", "http_method", "headers")
    made = {key: fields[key] for key in members if key in fields}
    if "accept" in fields and not any(name.lower() == "accept" for name in made.get("headers") or {}):
        made["headers"] = {**(made.get("headers") or {}), "Accept": fields["accept"]}
    made |= {"url": fields["url"].replace("$", "%24"), "content_type": "application/json"}
    if body is not None:
        made["body_field"] = body["input"]
    return made | ({"header_fields": headers} if headers else {})


def _check_members(fields: Mapping[str, Any]) -> None:
    """Raise NotDirect for members that UTCP does not have, and for methods other than its own."""
    if (fields.get("response") or {}).get("output") is not None:
        raise NotDirect("The gateway shapes its result.")
    if fields.get("defaults"):
        raise NotDirect("The gateway sends arguments that the call does not give.")
    if "toolclad" in fields:
        raise NotDirect("UTCP cannot send the request of a ToolClad manifest.")
    method = fields.get("http_method", "GET")
    if method not in _METHODS:
        raise NotDirect(f"UTCP has no http_method {method}.")


def _is_sendable(spec: Mapping[str, Any]) -> bool:
    location = spec["in"]
    unusual = any(not _is_usual(key, spec[key], location) for key in _SERIALISATION & spec.keys())
    return spec["input"] == spec["name"] and not unusual and location in _LOCATIONS


def _is_usual(key: str, value: Any, location: str) -> bool:
    style, explode = {"path": ("simple", False), "header": ("simple", False)}.get(location, ("form", True))
    match key:
        case "style":
            return bool(value == style)
        case "explode":
            return bool(value == explode)
        case _:
            return not value

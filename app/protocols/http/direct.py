"""`http` templates as UTCP clients send them: an OpenAPI operation in UTCP's own members."""

import re
from collections.abc import Mapping
from typing import Any, Final

from app.protocols.record import NotDirect

_SERIALISATION: Final = {"style", "explode", "allow_reserved", "content_type"}
_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")


def native(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template; raise NotDirect where parameters do not go where UTCP would put them."""
    if "parameters" not in fields:
        return dict(fields)
    headers: list[str] = []
    path = set(_PLACEHOLDER.findall(fields["url"]))
    for spec in fields["parameters"]:
        location = spec["in"]
        unusual = {key for key in _SERIALISATION & spec.keys() if not _is_usual(key, spec[key], location)}
        if spec["input"] != spec["name"] or unusual or location == "cookie":
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
    made |= {"url": fields["url"].replace("$", "%24"), "content_type": "application/json"}
    if body is not None:
        made["body_field"] = body["input"]
    return made | ({"header_fields": headers} if headers else {})


def _is_usual(key: str, value: Any, location: str) -> bool:
    style, explode = {"path": ("simple", False), "header": ("simple", False)}.get(location, ("form", True))
    match key:
        case "style":
            return bool(value == style)
        case "explode":
            return bool(value == explode)
        case _:
            return not value

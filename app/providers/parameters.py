"""Parameters, request bodies and responses that several routes of the control plane share, for OpenAPI."""

from typing import Annotated, Any, Final

from fastapi import Depends, Header, Path, Query
from pydantic import BaseModel

from app.access import requires
from app.credentials.input_models import SLOT, VARIABLE_NAME
from app.registration.input_models import DocumentOptionsInput, RegistrationFields, RegistrationInput
from app.schemas import PROVIDER_NAME
from app.security.principal import Principal

ReadsProviders = Annotated[Principal, Depends(requires("providers:read"))]
WritesProviders = Annotated[Principal, Depends(requires("providers:write"))]
WritesCredentials = Annotated[Principal, Depends(requires("credentials:write"))]

ProviderPath = Annotated[
    str, Path(pattern=PROVIDER_NAME, description="Name of a provider.", examples=["library"])
]
SlotPath = Annotated[
    str, Path(pattern=SLOT, description="Name of a credential slot.", examples=["memberKey"])
]
VariablePath = Annotated[
    str, Path(pattern=VARIABLE_NAME, description="Name of a variable, without `${}`.", examples=["REGION"])
]
NameQuery = Annotated[
    str | None,
    Query(pattern=PROVIDER_NAME, description="The provider's name, where the body cannot contain one."),
]
Prefer = Annotated[
    str | None,
    Header(
        max_length=200, description="`respond-async` returns 202 at once (RFC 7240).", examples=["wait=10"]
    ),
]

ETAG: Final[dict[str, Any]] = {
    "headers": {"ETag": {"schema": {"type": "string"}, "description": "The version in quotes."}}
}
LOCATION: Final[dict[str, Any]] = {
    "headers": {"Location": {"schema": {"type": "string"}, "description": "URL of the import's state."}}
}


def inlined(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model with every reference written out: OpenAPI has no `$defs` in a
    schema.
    """
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def written(node: Any) -> Any:
        if isinstance(node, list):
            return [written(member) for member in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str):
            target = definitions[reference.rpartition("/")[2]]
            return {**written(target), **{key: node[key] for key in node if key != "$ref"}}
        members = {key: member for key, member in node.items() if key != "discriminator"}
        return {key: written(member) for key, member in members.items()}

    result: dict[str, Any] = written(schema)
    return result


_TEMPLATE: Final[dict[str, Any]] = {
    "type": "object",
    "title": "UTCP call template (1.x) or provider (0.x)",
    "properties": {
        "name": {"type": "string", "pattern": PROVIDER_NAME},
        "call_template_type": {"const": "http"},
        "url": {"type": "string", "format": "uri"},
    },
    "required": ["name", "call_template_type", "url"],
}
_EXAMPLE: Final[dict[str, Any]] = {
    "name": "pets",
    "source": {
        "document": {
            "openapi": "3.1.0",
            "info": {"title": "Pets", "version": "1"},
            "servers": [{"url": "https://pets.example.com"}],
            "paths": {
                "/pets": {"get": {"operationId": "listPets", "responses": {"200": {"description": "Pets"}}}}
            },
        }
    },
}
_PROVIDER: Final = {"name": "pets", "provider_type": "http", "url": "https://pets.example.com/openapi.json"}
# Each entry is judged by itself and gets a verdict of its own, so a list accepts any entry.
_LISTS: Final[list[dict[str, Any]]] = [
    {
        "type": "array",
        "title": "A whole providers.json",
        "items": {},
        "minItems": 1,
        "maxItems": 1000,
        "example": [_PROVIDER],
    },
    {
        "type": "object",
        "title": "The configuration of a UTCP 1.x client",
        "properties": {
            "manual_call_templates": {"type": "array", "items": {}, "minItems": 1, "maxItems": 1000}
        },
        "required": ["manual_call_templates"],
    },
]
_DOCUMENT: Final[dict[str, Any]] = {
    "type": "object",
    "title": "An OpenAPI document or a UTCP manual",
    "anyOf": [{"required": ["openapi"]}, {"required": ["swagger"]}, {"required": ["tools"]}],
}


def registration_body() -> dict[str, Any]:
    """Return the OpenAPI request body of a registration: every form that the gateway recognises."""
    form = inlined(RegistrationFields)["properties"] | inlined(DocumentOptionsInput)["properties"]
    parts = {
        "file": {"type": "string", "format": "binary"},
        "name": {"type": "string", "pattern": PROVIDER_NAME},
    }
    kinds = {"anyOf": [inlined(RegistrationInput), _TEMPLATE, *_LISTS, _DOCUMENT]}
    content = {
        "application/json": {"schema": kinds, "example": _EXAMPLE},
        "application/yaml": {"schema": kinds},
        "application/zip": {"schema": {"type": "string", "format": "binary"}},
        "multipart/form-data": {
            "schema": {"type": "object", "properties": {**parts, **form}, "required": ["file"]}
        },
    }
    return {"requestBody": {"required": True, "content": content}}

"""Models of the request bodies of registrations, imports and variables, for OpenAPI; `request_reader` reads
them.

Each is one component of the document (`request_components`), which the operations refer to.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from fastapi.encoders import jsonable_encoder
from fastapi.openapi.models import Schema
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, RootModel
from pydantic.json_schema import models_json_schema

from app.core.schemas import ProviderName, StrictModel
from app.providers.credentials.input_models import NO_NUL
from app.providers.registration.input_models import (
    DocumentOptionsInput,
    RegistrationFields,
    RegistrationInput,
    UrlRegistrationInput,
    VariableInput,
    VariablesInput,
)
from app.providers.registration.request_parser import MAX_ENTRIES
from app.toolsets.changes import MAX_TOOLSETS

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
_PROVIDER: Final[dict[str, Any]] = {
    "name": "pets",
    "provider_type": "http",
    "url": "https://pets.example.com/openapi.json",
}

# Each entry is validated by itself and has an outcome of its own, so a list accepts any entry.
Entries = Annotated[list[Any], Field(min_length=1, max_length=MAX_ENTRIES)]


class CallTemplateBody(BaseModel):
    """A call template of UTCP 1.x. Those of other protocols than http have other members; they are accepted
    here, too, and are typed as `call_template` of a CallTemplateSource.
    """

    name: ProviderName
    call_template_type: Literal["http"]
    url: AnyUrl


class UtcpProviderBody(BaseModel):
    """A provider of UTCP 0.x. Those of other protocols than http have other members, and are accepted."""

    name: ProviderName
    provider_type: Literal["http"]
    url: AnyUrl


class ProviderListBody(RootModel[Entries]):
    """A providers.json of UTCP 0.x."""

    model_config = ConfigDict(json_schema_extra={"example": [_PROVIDER]})


class ClientConfigurationBody(BaseModel):
    """The configuration of a UTCP 1.x client."""

    manual_call_templates: Entries


class McpServersBody(RegistrationFields):
    """The configuration of an MCP client, as the documentation of MCP servers gives it. Other members of such
    a file are ignored.
    """

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "example": {"mcpServers": {"docs": {"type": "http", "url": "https://mcp.example.com/mcp"}}}
        },
    )
    mcp_servers: dict[str, Any] = Field(
        alias="mcpServers",
        description="Servers by name: `{command, args, env}` of a program, or `{type, url, headers}`.",
    )
    name: ProviderName | None = Field(
        default=None, description="Name of the provider; that of the server where there is one."
    )


class OpenAPIBody(BaseModel):
    """An OpenAPI 3 document."""

    model_config = ConfigDict(extra="allow")
    openapi: Any


class SwaggerBody(BaseModel):
    """A Swagger 2 document."""

    model_config = ConfigDict(extra="allow")
    swagger: Any


class ManualBody(BaseModel):
    """A UTCP manual."""

    model_config = ConfigDict(extra="allow")
    tools: Any


class UploadForm(RegistrationFields, DocumentOptionsInput):
    """A document as a file part of multipart/form-data, with the members of its registration."""

    file: bytes
    name: ProviderName | None = None


class ExportBody(StrictModel):
    """What `POST /import` takes: a response of `GET /export`."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"format": "utcp-gateway/1", "providers": [{"name": "pets", "tools": []}]}
        },
    )
    format: Literal["utcp-gateway/1"]
    providers: Annotated[list[Any], Field(max_length=MAX_ENTRIES)] = Field(
        description="Entries as `GET /export` writes them."
    )
    toolsets: Annotated[list[Any], Field(max_length=MAX_TOOLSETS)] = Field(
        default_factory=list,
        description="Toolsets as `GET /export` writes them; made after providers.",
    )


_FORMS: Final[tuple[type[BaseModel], ...]] = (
    RegistrationInput,
    UrlRegistrationInput,
    CallTemplateBody,
    UtcpProviderBody,
    ClientConfigurationBody,
    OpenAPIBody,
    SwaggerBody,
    ManualBody,
    # A form that is added stands at the end, so that the union is comparable with that of earlier releases.
    McpServersBody,
)
_REFERENCE: Final = "#/components/schemas/"
_REGISTRATION: Final = "Registration"
_READING: Final = ("root", "overlay")
# A source has exactly one of these members: its component, the description, and the members beside it.
_SOURCES: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "url": (
        "UrlSource",
        "The URL of an OpenAPI document or a UTCP manual, with what is sent to it.",
        ("headers", "auth", "auth_tools", *_READING, "follow_references"),
    ),
    "document": ("DocumentSource", "An OpenAPI document: an object, or its text as JSON or YAML.", _READING),
    "manual": ("ManualSource", "A UTCP manual.", ()),
    "manifests": ("ManifestsSource", "ToolClad manifests, by the names of their files.", ()),
    "call_template": (
        "CallTemplateSource",
        "A UTCP call template of any protocol, from which the tools are discovered.",
        (*_READING, "follow_references"),
    ),
}


def registration_body() -> dict[str, Any]:
    """Return the OpenAPI request body of a registration: every form that the gateway recognises.

    Under `application/json` these are the objects only, of which generators make classes. With a list among
    them, the client of openapi-python-client cannot tell a JSON body from a form. JSON is also YAML, so the
    list is described there.
    """
    return _request_body({
        "application/json": {"schema": _reference(_REGISTRATION), "example": _EXAMPLE},
        "application/yaml": {
            "schema": {"oneOf": [_reference(_REGISTRATION), _reference(ProviderListBody.__name__)]}
        },
        "application/zip": {"schema": {"type": "string", "format": "binary"}},
        "application/toml": {"schema": {"type": "string"}},
        "multipart/form-data": {"schema": _reference(UploadForm.__name__)},
    })  # fmt: skip


def import_body() -> dict[str, Any]:
    """Return the OpenAPI request body of an import. Any entry is accepted, because each is validated by
    itself.
    """
    return _request_body({"application/json": {"schema": _reference(ExportBody.__name__)}})


def variable_body() -> dict[str, Any]:
    """Return the OpenAPI request body of a variable, for the `openapi_extra` of its route."""
    text = {"type": "string", "maxLength": 65_536, **NO_NUL}
    value = {"schema": text, "example": "the-secret-of-the-upstream"}
    return _variable_body(VariableInput.__name__, {"value": "eu", "secret": False}, value)


def variables_body() -> dict[str, Any]:
    """Return the OpenAPI request body of an import of variables, for the `openapi_extra` of its route."""
    file = {"schema": {"type": "string", "minLength": 1}, "example": "API_TOKEN=secret\n"}
    example = {"variables": {"API_TOKEN": {"value": "secret"}}}
    return _variable_body(VariablesInput.__name__, example, file)


def request_components() -> dict[str, Any]:
    """Return the schemas that request bodies of registrations, imports and variables refer to, by component
    name.

    The forms of `Registration` are told apart by their required members, which differ; so are those of a
    `source`.
    """
    models: tuple[type[BaseModel], ...] = (
        *_FORMS,
        ProviderListBody,
        UploadForm,
        ExportBody,
        VariableInput,
        VariablesInput,
    )
    _, written = models_json_schema(
        [(model, "validation") for model in models], ref_template=_REFERENCE + "{model}"
    )
    # In the form in which FastAPI writes the components that it finds itself: some are in both.
    found: dict[str, Any] = {
        name: jsonable_encoder(Schema.model_validate(schema), by_alias=True, exclude_none=True)
        for name, schema in written["$defs"].items()
    }
    found[_REGISTRATION] = {
        "title": "Registration",
        "description": "What `POST /providers` registers; the required members tell the forms apart.",
        "oneOf": [_reference(model.__name__) for model in _FORMS],
    }
    found |= _source_components(found["SourceInput"])
    return found


def _source_components(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the components that describe a source: of its members, those that go together."""
    members = source["properties"]
    found: dict[str, Any] = {}
    for member, (name, description, others) in _SOURCES.items():
        own = members[member]
        present = [kind for kind in own.get("anyOf", [own]) if kind != {"type": "null"}]
        required = present[0] if len(present) == 1 else {"anyOf": present}
        found[name] = {
            "title": name,
            "description": description,
            "type": "object",
            "properties": {
                member: {"title": own["title"], **required},
                **{other: members[other] for other in others},
            },
            "required": [member],
            "additionalProperties": False,
        }
    one_of = [_reference(name) for name, _, _ in _SOURCES.values()]
    return {**found, "SourceInput": {"title": "SourceInput", "oneOf": one_of}}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": _REFERENCE + name}


def _variable_body(name: str, example: Any, text: dict[str, Any]) -> dict[str, Any]:
    return _request_body({
        "application/json": {"schema": _reference(name), "example": example},
        "text/plain": text,
    })  # fmt: skip


def _request_body(content: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": content}}

"""The reference page: an OpenAPI 3.1 document as HTML."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup, escape

from app.server.docs_page.schemas import SchemaView, build_schema_view

_TEMPLATE: Final = "page.html"
_METHODS: Final = frozenset({"get", "put", "post", "delete", "patch", "head", "options", "trace"})
_TEXT_TYPES: Final = re.compile(r"text/|application/(?:.*\+)?(?:json|yaml|x-ndjson)$")
_CODE: Final = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class ParameterView:
    """A parameter; `example` is text for a form field, and `is_list` says that it may be repeated."""

    name: str
    location: str
    is_required: bool
    is_list: bool
    choices: tuple[str, ...]
    description: str
    schema: SchemaView
    example: str


@dataclass(frozen=True, slots=True)
class ExampleView:
    """An example as text; `summary` names it where there are several."""

    summary: str
    text: str


@dataclass(frozen=True, slots=True)
class ContentView:
    """A body of one media type; `is_text` says that a form can send it."""

    media_type: str
    is_text: bool
    schema: SchemaView
    examples: tuple[ExampleView, ...]


@dataclass(frozen=True, slots=True)
class HeaderView:
    """A header of a response."""

    name: str
    description: str
    schema: SchemaView


@dataclass(frozen=True, slots=True)
class ResponseView:
    """A response of one status."""

    status: str
    description: str
    headers: tuple[HeaderView, ...]
    contents: tuple[ContentView, ...]


@dataclass(frozen=True, slots=True)
class OperationView:
    """An operation with all that its section shows."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    scopes: tuple[str, ...]
    needs_key: bool
    parameters: tuple[ParameterView, ...]
    bodies: tuple[ContentView, ...]
    responses: tuple[ResponseView, ...]


@dataclass(frozen=True, slots=True)
class TagView:
    """A tag and its operations."""

    name: str
    description: str
    operations: tuple[OperationView, ...]


def render(document: Mapping[str, Any], root: str) -> str:
    """Return the page of an OpenAPI 3.1 document as HTML; `root` is the path before every path of the API."""
    # Most workers never render the page.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = render_prose
    schemas = document.get("components", {}).get("schemas", {})
    return environment.get_template(_TEMPLATE).render(
        info=document["info"],
        root=root,
        tags=_list_tags(document),
        schemas={name: build_schema_view(schema) for name, schema in schemas.items()},
    )


def render_prose(text: str) -> Markup:
    """Return text as HTML: paragraphs and `code`, the parts of CommonMark that our descriptions use."""
    paragraphs = (
        Markup("<p>{}</p>").format(_render_inline(paragraph))
        for paragraph in re.split(r"\n\s*\n", text.strip())
    )
    return Markup("\n").join(paragraphs)


def _render_inline(text: str) -> Markup:
    # Every second part of the split is what stands between backticks.
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(_CODE.split(text))
    )


def _list_tags(document: Mapping[str, Any]) -> list[TagView]:
    operations = [
        (operation["tags"][0], _build_operation(document, path, method, operation))
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in _METHODS
    ]
    return [
        TagView(
            tag["name"], tag["description"], tuple(view for name, view in operations if name == tag["name"])
        )
        for tag in document["tags"]
    ]


def _build_operation(
    document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]
) -> OperationView:
    return OperationView(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        description=operation.get("description", ""),
        scopes=tuple(operation.get("x-required-scopes", ())),
        needs_key="x-required-scopes" in operation,
        parameters=tuple(_build_parameter(parameter) for parameter in operation.get("parameters", ())),
        bodies=tuple(_list_contents(document, operation.get("requestBody", {}))),
        responses=tuple(
            ResponseView(
                status,
                response["description"],
                tuple(
                    HeaderView(name, header.get("description", ""), build_schema_view(header["schema"]))
                    for name, header in response.get("headers", {}).items()
                ),
                tuple(_list_contents(document, response)),
            )
            for status, response in sorted(operation["responses"].items())
        ),
    )


def _build_parameter(parameter: Mapping[str, Any]) -> ParameterView:
    schema = parameter["schema"]
    examples = [parameter["example"]] if "example" in parameter else schema.get("examples", [])[:1]
    is_list = schema.get("type") == "array"
    values = examples[0] if examples and is_list and isinstance(examples[0], list) else examples
    choices = (
        ("true", "false") if schema.get("type") == "boolean" else tuple(map(str, schema.get("enum", ())))
    )
    described = {key: value for key, value in schema.items() if key != "description"}
    return ParameterView(
        name=parameter["name"],
        location=parameter["in"],
        is_required=parameter.get("required", False),
        is_list=is_list,
        choices=choices,
        description=parameter.get("description", ""),
        schema=build_schema_view(described),
        example="\n".join(map(str, values)),
    )


def _list_contents(document: Mapping[str, Any], holder: Mapping[str, Any]) -> Iterator[ContentView]:
    for media_type, media in holder.get("content", {}).items():
        examples = tuple(_list_examples(document, media))
        is_text = _TEXT_TYPES.match(media_type) is not None
        yield ContentView(media_type, is_text, build_schema_view(media.get("schema", {})), examples)


def _list_examples(document: Mapping[str, Any], media: Mapping[str, Any]) -> Iterator[ExampleView]:
    if "example" in media:
        yield ExampleView("", _write_text(media["example"]))
    for name, example in media.get("examples", {}).items():
        resolved_example = example
        if "$ref" in example:
            resolved_example = document["components"]["examples"][example["$ref"].rpartition("/")[2]]
        yield ExampleView(name, _write_text(resolved_example["value"]))
    if not media.keys() & {"example", "examples"}:
        for example in media.get("schema", {}).get("examples", ())[:1]:
            yield ExampleView("", _write_text(example))


def _write_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)

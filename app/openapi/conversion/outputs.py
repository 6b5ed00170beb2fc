"""The output schema of a tool: that of the first success response with JSON, a sequence, or text (OAS
Responses Object).
"""

import re
from dataclasses import dataclass, replace
from typing import Any

from app.core import exact_json
from app.core.media_types import is_xml, may_be_json, parse_essence
from app.openapi.conversion import media
from app.openapi.conversion.examples import media_type_examples
from app.openapi.conversion.parameters import with_description
from app.openapi.conversion.sequences import sequence_fragment
from app.openapi.model import Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.reading.refs import RefProblem, ResolvedNode, escape_token
from app.openapi.schemas.closure import Fragment
from app.openapi.schemas.dialect import Mode
from app.openapi.schemas.xml_shapes import read_xml_shape

_SUCCESS = re.compile(r"2(?:[0-9][0-9]|[xX][xX])")
# 304 is about a representation that the client has, and always a result.
_REDIRECT = re.compile(r"3(?:(?!04)[0-9][0-9]|[xX][xX])")
_REF = "#/$defs/"
_MAX_RESPONSES = 100


@dataclass(frozen=True, slots=True)
class Outputs:
    """An output schema with its own `$defs` ({} where there is none), its size in bytes, and notes.

    `response` is what the call template says of responses beyond the schema (`ResponseSpec`), None where
    there is nothing to say.
    """

    schema: Json
    size: int = 0
    notes: tuple[str, ...] = ()
    response: Json | None = None


_NONE = Outputs({})


def read_outputs(document: OpenApiDocument, operation: Json, pointer: str, *, budget: int) -> Outputs:
    """Return the output schema of an operation, in at most `budget` bytes.

    Never raises: a defect of a response costs only its schema.
    """
    responses = operation.get("responses")
    if not isinstance(responses, dict):
        return _NONE
    key = (f"outputs {budget}", id(responses))
    # Swagger 2.0 declares the media types of responses next to them.
    produces = operation.get("produces", document.raw.get("produces")) if document.version == "2.0" else None
    if key not in document.memo:
        outputs = _with_redirects(
            _read_responses(document, responses, f"{pointer}/responses", produces, budget), responses
        )
        document.memo[key] = responses, outputs
    remembered: Outputs = document.memo[key][1]
    return remembered


def _read_responses(
    document: OpenApiDocument, responses: Json, pointer: str, produces: Any, budget: int
) -> Outputs:
    statuses = [status for status in responses if isinstance(status, str) and _SUCCESS.fullmatch(status)]
    for status in sorted(statuses, key=str.upper)[:_MAX_RESPONSES]:
        try:
            resolved = document.references.follow(responses[status], location=f"{pointer}/{status}")
            fragment = _build_fragment(document, resolved, produces)
            if fragment is not None:
                outputs = _with_definitions(document, fragment, budget)
                return replace(outputs, response={"status": status}) if len(statuses) > 1 else outputs
        except RefProblem as problem:
            document.warnings.add(problem.pointer or f"{pointer}/{status}", f"a response {problem.reason}")
    for status in sorted(statuses, key=str.upper)[:_MAX_RESPONSES]:
        response = _read_other_form(document, responses[status], f"{pointer}/{status}", produces, budget)
        if response is not None:
            more = {"status": status} if len(statuses) > 1 else {}
            return Outputs({}, len(exact_json.dumps(response)), response={**more, **response})
    return _NONE


def _with_redirects(outputs: Outputs, responses: Json) -> Outputs:
    """Return the outputs with the redirects that the operation declares: they are its results."""
    declared = {
        status.upper() for status in responses if isinstance(status, str) and _REDIRECT.fullmatch(status)
    }
    if not declared:
        return outputs
    return replace(outputs, response={**(outputs.response or {}), "redirects": sorted(declared)})


def _read_other_form(
    document: OpenApiDocument, response: Any, response_pointer: str, produces: Any, budget: int
) -> Json | None:
    """Return how a response in XML, a form or text is decoded, None where it has none of them.

    Its schema is not the tool's output schema: what a client gets is the text, unless it is decoded.
    """
    try:
        resolved = document.references.follow(response, location=response_pointer)
        chosen, schema, pointer = _find_described_form(document, resolved, produces)
        if schema is None:
            return None
        fragment = document.schemas.convert_schema(schema, pointer, mode=Mode.OUTPUT)
        outputs = _with_definitions(document, fragment, budget)
    except RefProblem:
        return None
    if not outputs.schema:
        return None
    form: Json = {"content_type": chosen, "schema": outputs.schema}
    if is_xml(chosen):
        shape = read_xml_shape(document, schema)
        if shape is None or len(exact_json.dumps(shape)) > budget:
            return None
        form["xml"] = shape
    return form


def _find_described_form(
    document: OpenApiDocument, response: ResolvedNode, produces: Any
) -> tuple[str, Any, str]:
    """Return the media type, the schema and its pointer of the response in another form than JSON."""
    node = response.node if isinstance(response.node, dict) else {}
    if document.version == "2.0":
        listed = produces if isinstance(produces, list) else []
        chosen = next((one for one in listed if media.legal(one) and _is_decoded(one)), "")
        return chosen, node.get("schema") if chosen else None, f"{response.pointer}/schema"
    content = node.get("content")
    content = content if isinstance(content, dict) else {}
    chosen = next((one for one in content if media.legal(one) and _is_decoded(one)), "")
    pointer = f"{response.pointer}/content/{escape_token(chosen)}"
    media_object = document.references.follow(content.get(chosen), location=pointer).node
    return chosen, media_object.get("schema") if isinstance(media_object, dict) else None, f"{pointer}/schema"


def _is_decoded(media_type: str) -> bool:
    kind = parse_essence(media_type)
    return is_xml(kind) or kind in ("application/x-www-form-urlencoded", "text/plain")


def _build_fragment(document: OpenApiDocument, response: ResolvedNode, produces: Any) -> Fragment | None:
    """Return the schema of the JSON of one response, or of a sequence as the list of its items; None where it
    has none.
    """
    node, pointer = response.node, response.pointer
    if not isinstance(node, dict):
        return None
    if document.version == "2.0":
        listed = produces if isinstance(produces, list) else []
        is_json = not listed or any(media.legal(one) and may_be_json(one) for one in listed)
        schema = node.get("schema") if is_json else None
        return (
            None
            if schema is None
            else document.schemas.convert_schema(schema, f"{pointer}/schema", mode=Mode.OUTPUT)
        )
    content = node.get("content")
    if not isinstance(content, dict):
        return None
    chosen = media.preferred(content)
    if chosen is None or not may_be_json(chosen):
        chosen = next((one for one in content if media.legal(one) and media.is_sequential(one)), None)
    if chosen is None:
        return _build_text_fragment(document, content, pointer)
    resolved = document.references.follow(
        content[chosen], location=f"{pointer}/content/{escape_token(chosen)}"
    )
    media_object = resolved.node if isinstance(resolved.node, dict) else {}
    if "itemSchema" in media_object and not may_be_json(chosen):
        return sequence_fragment(document, media_object, resolved.pointer, mode=Mode.OUTPUT)
    if media_object.get("schema") is None or not (may_be_json(chosen) or document.version == "3.2"):
        return None
    fragment = document.schemas.convert_schema(
        media_object["schema"], f"{resolved.pointer}/schema", mode=Mode.OUTPUT
    )
    examples = media_type_examples(document, media_object, fragment.schema) if may_be_json(chosen) else []
    return with_description(fragment, {}, examples=examples)


def _build_text_fragment(document: OpenApiDocument, content: Json, pointer: str) -> Fragment | None:
    """Return the schema of a response of text, which calls return as a string; None where it is none."""
    for name in content:
        if media.legal(name) and name.lower().startswith("text/"):
            resolved = document.references.follow(
                content[name], location=f"{pointer}/content/{escape_token(name)}"
            )
            schema = resolved.node.get("schema") if isinstance(resolved.node, dict) else None
            if schema is None:
                continue
            fragment = document.schemas.convert_schema(schema, f"{resolved.pointer}/schema", mode=Mode.OUTPUT)
            return fragment if fragment.schema.get("type") == "string" else None
    return None


def _with_definitions(document: OpenApiDocument, fragment: Fragment, budget: int) -> Outputs:
    if fragment.size > budget:
        return Outputs({}, notes=("the schema of the response is too large and was left out",))
    closure = document.schemas.collect_definitions(
        fragment.refs, mode=Mode.OUTPUT, budget=budget - fragment.size
    )
    schema = fragment.schema
    if "$ref" in schema and schema.keys() <= {"$ref", "examples"}:
        # A schema that is only a reference is easier to read when replaced by its target.
        name = schema["$ref"].removeprefix(_REF)
        defs = closure.defs
        if fragment.refs[0] not in closure.referenced:
            defs = {other: one for other, one in defs.items() if other != name}
        beside = {word: value for word, value in schema.items() if word != "$ref"}
        target = {**beside, **closure.defs[name]}
        return _build_outputs(target, defs, closure.size, closure.cut)
    return _build_outputs(schema, closure.defs, fragment.size + closure.size, closure.cut)


def _build_outputs(schema: Json, defs: Json, size: int, cut: int) -> Outputs:
    notes = (f"the schema of the response is large: {cut} of its parts were left open",) if cut else ()
    return Outputs({**schema, "$defs": defs} if defs else schema, size, notes)

"""The output schema of a tool: that of the first success response with JSON (OAS Responses Object)."""

import re
from dataclasses import dataclass
from typing import Any

from app.openapi import media
from app.openapi.dialect import Mode
from app.openapi.document import OpenApiDocument
from app.openapi.model import Json
from app.openapi.refs import RefProblem, escape
from app.openapi.schemas import Fragment

_SUCCESS = re.compile(r"2(?:[0-9][0-9]|[xX][xX])")
_REF = "#/$defs/"
_MAX_RESPONSES = 100


@dataclass(frozen=True, slots=True)
class Outputs:
    """An output schema with its own `$defs` ({} where there is none), its size in bytes, and notes."""

    schema: Json
    size: int = 0
    notes: tuple[str, ...] = ()


_NONE = Outputs({})


def read_outputs(document: OpenApiDocument, operation: Json, at: str, *, budget: int) -> Outputs:
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
        outputs = _outputs(document, responses, f"{at}/responses", produces, budget)
        document.memo[key] = responses, outputs
    made: Outputs = document.memo[key][1]
    return made


def _outputs(document: OpenApiDocument, responses: Json, at: str, produces: Any, budget: int) -> Outputs:
    statuses = [status for status in responses if isinstance(status, str) and _SUCCESS.fullmatch(status)]
    for status in sorted(statuses, key=str.upper)[:_MAX_RESPONSES]:
        try:
            found = document.references.follow(responses[status], at=f"{at}/{status}")
            schema = _schema(document, found.node, produces)
            if schema is None:
                continue
            fragment = document.book.fragment(schema, f"{found.pointer}/schema", mode=Mode.OUTPUT)
            return _with_definitions(document, fragment, budget)
        except RefProblem as problem:
            document.warnings.add(problem.pointer or f"{at}/{status}", f"a response {problem.reason}")
    return _NONE


def _schema(document: OpenApiDocument, response: Any, produces: Any) -> Any:
    """Return the schema of the JSON of one response; None where it has none."""
    if not isinstance(response, dict):
        return None
    if document.version == "2.0":
        listed = produces if isinstance(produces, list) else []
        is_json = not listed or any(media.legal(one) and media.is_json(one) for one in listed)
        return response.get("schema") if is_json else None
    content = response.get("content")
    chosen = media.preferred(content) if isinstance(content, dict) else None
    if chosen is None or not isinstance(content, dict) or not media.is_json(chosen):
        return None
    one = document.references.follow(content[chosen], at=f"/content/{escape(chosen)}").node
    return one.get("schema") if isinstance(one, dict) else None


def _with_definitions(document: OpenApiDocument, fragment: Fragment, budget: int) -> Outputs:
    if fragment.size > budget:
        return Outputs({}, notes=("the schema of the response is too large and was left out",))
    closure = document.book.closure(fragment.refs, mode=Mode.OUTPUT, budget=budget - fragment.size)
    schema = fragment.schema
    if len(schema) == 1 and "$ref" in schema:
        # A schema that is only a reference is easier to read when replaced by its target.
        name = schema["$ref"].removeprefix(_REF)
        defs = closure.defs
        if fragment.refs[0] not in closure.referenced:
            defs = {other: one for other, one in defs.items() if other != name}
        return _outputs_of(closure.defs[name], defs, closure.size, closure.cut)
    return _outputs_of(schema, closure.defs, fragment.size + closure.size, closure.cut)


def _outputs_of(schema: Json, defs: Json, size: int, cut: int) -> Outputs:
    notes = (f"the schema of the response is large: {cut} of its parts were left open",) if cut else ()
    return Outputs({**schema, "$defs": defs} if defs else schema, size, notes)

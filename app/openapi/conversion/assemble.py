"""Converts one operation into one tool: its inputs, argument plan, outputs, security and description."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.core import exact_json
from app.openapi.conversion.accept import read_accept
from app.openapi.conversion.bodies import RequestBody, read_body, read_body_v2
from app.openapi.conversion.document_keywords import DocumentKeywords
from app.openapi.conversion.names import choose_input_names
from app.openapi.conversion.operations import Operation
from app.openapi.conversion.outputs import Outputs, read_outputs
from app.openapi.conversion.parameters import Parameter, merge_parameters, offered
from app.openapi.conversion.paths import match_placeholders
from app.openapi.conversion.querystring import read_querystring
from app.openapi.conversion.results import ConvertedTool
from app.openapi.conversion.security import SecuritySlots
from app.openapi.conversion.servers import BaseUrl, select_server, select_server_v2, template
from app.openapi.conversion.tags import TagHierarchy
from app.openapi.conversion.text import TOOL_TEXT, clean
from app.openapi.model import OUTPUT_EXTENSION, Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.report import OperationProblem
from app.openapi.schemas.dialect import Mode

_LARGE = 30_000
# RFC 9110 sections 9.3.6 and 9.3.8: a TRACE response repeats the request, and with it the stored credential.
_NOT_CALLED = {
    "TRACE": "it cannot be called through the gateway: a response to TRACE repeats the credential",
    "CONNECT": "it cannot be called through the gateway: CONNECT opens a tunnel through a proxy",
}
_TOOL_OVERHEAD = 500
_MAX_NAME = 200


@dataclass(slots=True)
class SizeBudget:
    """The bytes that the tools of a document may take together. `left` decreases with each tool.

    While `left` is above `full_budget_above`, the definitions of a tool's inputs may take `tool` bytes, and
    those of its outputs `output` bytes.
    """

    left: int
    full_budget_above: int
    tool: int
    output: int

    def limit_inputs(self) -> int:
        """Return the bytes that the definitions of the next tool's inputs may take: 0 once half is used
        up.
        """
        return self.tool if self.left > self.full_budget_above else 0

    def limit_outputs(self) -> int:
        """Return the bytes that the definitions of the next tool's outputs may take: 0 once half is used
        up.
        """
        return self.output if self.left > self.full_budget_above else 0

    def spend(self, size: int) -> None:
        """Subtract `size` bytes; raise OperationProblem where nothing is left."""
        self.left -= size
        if self.left < 0:
            raise OperationProblem("is left out: the tools of this document are too large together")


def assemble(
    document: OpenApiDocument,
    operation: Operation,
    *,
    name: str,
    slots: SecuritySlots,
    tags: TagHierarchy,
    keywords: DocumentKeywords,
    budget: SizeBudget,
) -> ConvertedTool:
    """Return the tool of an operation; raise OperationProblem, with a reason and a pointer, if it has
    none.
    """
    budget.spend(_TOOL_OVERHEAD)
    node = operation.node
    if not isinstance(node, dict):
        raise OperationProblem("is not an object", pointer=operation.pointer)
    notes = [_NOT_CALLED[operation.method]] if operation.method in _NOT_CALLED else []
    notes.extend(document.operation_notes.get(operation.pointer, ()))
    security = slots.requirements(node, operation.pointer, notes=notes)
    levels = (
        (operation.item.get("parameters"), f"{operation.item_pointer}/parameters"),
        (node.get("parameters"), f"{operation.pointer}/parameters"),
    )
    parameters = merge_parameters(document, levels, notes=notes)
    parameters = read_querystring(document, parameters, notes=notes)
    body = _read_request_body(document, operation, parameters, notes)
    parameters = [one for one in parameters if one.location not in {"body", "formData"}]
    parameters = offered(parameters, credentials=security.keys, notes=notes)
    path, parameters = match_placeholders(operation.path, parameters, notes=notes)
    base_url = _select_base_url(document, operation)
    notes.extend(base_url.notes)
    aliases = choose_input_names(parameters, has_body=body is not None)
    inputs, size = _build_inputs(document, parameters, aliases, body, budget, notes)
    outputs = read_outputs(document, node, operation.pointer, budget=budget.limit_outputs())
    notes.extend(outputs.notes)
    description = _build_description(operation, notes)
    if size + len(description) > _LARGE // 2:
        notes.extend(_note_size(name, description, inputs))
    budget.spend(size + outputs.size + len(description) + 250 * len(parameters) + security.size)
    call_template: Json = {
        "call_template_type": "http",
        "http_method": operation.method,
        "url": template(base_url, path),
        "parameters": [one.plan(alias) for one, alias in zip(parameters, aliases, strict=True)],
    }
    accept = read_accept(document, node, operation.pointer)
    if accept is not None:
        call_template["accept"] = accept
    if body is not None:
        call_template["body"] = body.plan()
    response, schema = _shape_result(node, outputs)
    tool_tags = tags.of(node.get("tags"))
    found_keywords = keywords.of(operation, tags=tool_tags, notes=notes)
    if response is not None:
        call_template["response"] = response
    return ConvertedTool(
        source_key=operation.source_key,
        name=name,
        description=description,
        inputs=inputs,
        outputs=schema,
        tags=tool_tags,
        deprecated=node.get("deprecated") is True,
        call_template=call_template,
        security=security.alternatives,
        keywords=found_keywords,
        notes=tuple(dict.fromkeys(notes)),
    )


def _shape_result(node: Json, outputs: Outputs) -> tuple[Json | None, Json]:
    """Return what the call template says of responses, and the output schema.

    An operation with `x-utcp-output` shapes its result: its `output` is then in the call template, its
    `schema` is the output schema.
    """
    extension = node.get(OUTPUT_EXTENSION)
    if extension is None:
        return outputs.response, outputs.schema
    if not isinstance(extension, dict) or not isinstance(extension.get("output"), dict):
        raise OperationProblem(f"has an extension {OUTPUT_EXTENSION} without an `output`")
    schema = extension.get("schema")
    return {"output": extension["output"]}, schema if isinstance(schema, dict) else {}


def _read_request_body(
    document: OpenApiDocument, operation: Operation, parameters: Sequence[Parameter], notes: list[str]
) -> RequestBody | None:
    if document.version == "2.0":
        body = read_body_v2(document, parameters, operation.node, notes=notes)
    else:
        node = operation.node.get("requestBody")
        body = None if node is None else read_body(document, node, f"{operation.pointer}/requestBody")
    if body is not None and operation.method == "TRACE":
        # RFC 9110 section 9.3.8: a client MUST NOT send content in a TRACE request.
        notes.append("the body is left out: TRACE carries none")
        return None
    if body is not None:
        notes.extend(body.notes)
    return body


def _select_base_url(document: OpenApiDocument, operation: Operation) -> BaseUrl:
    if document.version == "2.0":
        return select_server_v2(document, operation.node)
    return select_server(
        document,
        (
            (operation.node.get("servers"), f"{operation.pointer}/servers"),
            (operation.item.get("servers"), f"{operation.item_pointer}/servers"),
            (document.raw.get("servers"), "/servers"),
        ),
    )


def _build_inputs(
    document: OpenApiDocument,
    parameters: Sequence[Parameter],
    aliases: Sequence[str],
    body: RequestBody | None,
    budget: SizeBudget,
    notes: list[str],
) -> tuple[Json, int]:
    """Return the input schema and its size in bytes. Its root is an object without combinators that allows no
    additional properties.
    """
    properties = {alias: _name_schema(one, alias) for one, alias in zip(parameters, aliases, strict=True)}
    required = [alias for one, alias in zip(parameters, aliases, strict=True) if one.required]
    size = sum(one.fragment.size + len(alias) for one, alias in zip(parameters, aliases, strict=True))
    if body is not None:
        properties["body"] = body.fragment.schema
        size += body.fragment.size
        if body.required:
            required.append("body")
    if size > budget.tool:
        raise OperationProblem(f"has inputs of more than {budget.tool} bytes")
    # The same budget for every tool, so that closures are shared between them.
    definitions_budget = budget.limit_inputs()
    refs = dict.fromkeys(ref for one in parameters for ref in one.fragment.refs)
    closure = document.schemas.collect_definitions(refs, mode=Mode.INPUT, budget=definitions_budget)
    defs, cut, size = closure.defs, closure.cut, size + closure.size
    notes.extend(note for one in parameters for note in one.fragment.notes)
    notes.extend(closure.notes)
    if body is not None:
        notes.extend(body.fragment.notes)
    if body is not None and body.fragment.refs:
        closure = document.schemas.collect_definitions(
            body.fragment.refs, mode=body.mode, budget=definitions_budget
        )
        defs, cut, size = {**defs, **closure.defs}, cut + closure.cut, size + closure.size
        notes.extend(closure.notes)
    if cut:
        notes.append(f"the input schema is large: {cut} of its parts were left open")
    inputs: Json = {"type": "object", "properties": properties}
    if required:
        inputs["required"] = required
    inputs["additionalProperties"] = False
    if defs:
        inputs["$defs"] = defs
    return inputs, size


def _name_schema(parameter: Parameter, alias: str) -> Json:
    """Return the schema of a parameter; where its key lacks letters of another script, with the real name."""
    schema, name = parameter.fragment.schema, parameter.name
    if name.isascii() or alias == name or not any(c.isalnum() and not c.isascii() for c in name):
        return schema
    texts = [schema.get("description"), f"Sent as `{clean(name, max_length=_MAX_NAME)[0]}`."]
    return {**schema, "description": "\n\n".join(filter(None, texts))}


def _note_size(name: str, description: str, inputs: Json) -> list[str]:
    """Return a note if the tool has more than 30 kB as a model sees it, measured exactly."""
    seen = len(exact_json.dumps({"name": name, "description": description, "inputSchema": inputs}))
    return [f"the tool is large: {seen / 1000:.0f} kB for a model to read"] if seen > _LARGE else []


def _build_description(operation: Operation, notes: list[str]) -> str:
    texts: list[str] = []
    for key in ("summary", "description"):
        text, cut = clean(operation.node.get(key) or operation.item.get(key), max_length=TOOL_TEXT)
        if cut:
            notes.append(f"the {key} was cut at {TOOL_TEXT} characters")
        texts.append(text)
    summary, description = texts
    if not summary or description.startswith(summary):
        text = description
    elif not description:
        text = summary
    else:
        text, cut = clean(f"{summary}\n\n{description}", max_length=TOOL_TEXT)
        if cut:
            notes.append(f"the description was cut at {TOOL_TEXT} characters")
    return text or clean(operation.source_key, max_length=TOOL_TEXT)[0]

"""The fields that a client chooses in place of an operation's own selection: the argument `_fields`.

Each of its texts is a field, an alias or an inline fragment in GraphQL's syntax, e.g. `owner { login }`. They
are parsed and printed again, so that none can become another part of the document.
"""

from collections.abc import Iterator
from typing import Any, Final

from graphql import (
    DirectiveNode,
    DocumentNode,
    FieldNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSchema,
    Node,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    Source,
    VariableNode,
    Visitor,
    parse,
    validate,
    visit,
)

from app.core.errors import FieldError, InvalidArguments
from app.core.text import pointer
from app.protocols.graphql.selections import Node as SelectedField

FIELDS_ARGUMENT: Final = "_fields"
"""The argument that a discovered tool has for them, unless its field has an argument of that name."""

_MAX_TEXTS: Final = 200
_MAX_TEXT_LENGTH: Final = 10_000
_MAX_TOKENS: Final = 2_000
_MAX_ERRORS: Final = 20
_SYNTAX: Final = "Give one field in GraphQL's syntax, e.g. `name` or `owner { login }`."
_FORBIDDEN: Final = "Variables, directives and named fragments cannot be used here."


def fields_schema(selected: list[SelectedField]) -> dict[str, Any]:
    """Return the schema of the argument of a tool that selects these fields by default."""
    plain = [node for node in selected if not node.on and node.name != "__typename"]
    examples = [node.name for node in plain if not node.below][:2]
    nested = next((node for node in plain if node.below), None)
    if nested is not None:
        inner = next((one.name for one in nested.below if not one.below and not one.on), "__typename")
        examples.append(f"{nested.name} {{ {inner} }}")
    return {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "maxItems": _MAX_TEXTS,
        "description": "Fields of the result to return in place of the default ones, in GraphQL syntax.",
        **({"examples": [examples]} if examples else {}),
    }


def read_fields(value: Any, *, at: str) -> SelectionSetNode:
    """Return the selection set of a list of texts; raise InvalidArguments with pointers below `at`.

    The source of each node is named after the index of its text.
    """
    if not isinstance(value, list) or not 0 < len(value) <= _MAX_TEXTS:
        detail = f"Give a list of 1 to {_MAX_TEXTS} fields."
        raise InvalidArguments("The fields cannot be used.", errors=[FieldError(at, detail, "array")])
    found: list[SelectionNode] = []
    errors: list[FieldError] = []
    for index, text in enumerate(value):
        try:
            found += _selections(text, index)
        except ValueError as error:
            errors.append(FieldError(pointer(at, index), str(error)))
    if errors:
        raise InvalidArguments("The fields cannot be used.", errors=errors[:_MAX_ERRORS])
    return SelectionSetNode(selections=tuple(found))


def with_fields(document: DocumentNode, chosen: SelectionSetNode) -> DocumentNode:
    """Return the operation of a document with the chosen selection at its only root field.

    Raise ValueError for a document without a single root field.
    """
    found = root_field(document)
    if found is None:
        raise ValueError("The document has no single root field.")
    operation, field = found
    head = FieldNode(
        alias=field.alias, name=field.name, arguments=field.arguments, directives=field.directives
    )
    used = _Variables()
    visit(head, used)
    for directive in operation.directives or ():
        visit(directive, used)
    root = FieldNode(
        alias=field.alias,
        name=field.name,
        arguments=field.arguments,
        directives=field.directives,
        selection_set=chosen,
    )
    only = OperationDefinitionNode(
        operation=operation.operation,
        name=operation.name,
        # A variable that only the replaced selection has used would be an error (GraphQL section 5.8.4).
        variable_definitions=tuple(
            one for one in operation.variable_definitions or () if one.variable.name.value in used.names
        ),
        directives=operation.directives,
        selection_set=SelectionSetNode(selections=(root,)),
    )
    return DocumentNode(definitions=(only,))


def root_field(document: DocumentNode) -> tuple[OperationDefinitionNode, FieldNode] | None:
    """Return the operation and its root field, None unless there is one of each."""
    operations = [one for one in document.definitions if isinstance(one, OperationDefinitionNode)]
    if len(operations) != 1:
        return None
    selections = operations[0].selection_set.selections
    if len(selections) != 1 or not isinstance(selections[0], FieldNode):
        return None
    return operations[0], selections[0]


def check_fields(document: DocumentNode, schema: GraphQLSchema, *, at: str) -> None:
    """Raise InvalidArguments, with pointers below `at`, for chosen fields that the schema does not have.

    Errors in other parts of the document are left to the server.
    """
    errors: dict[FieldError, None] = {}
    for error in validate(schema, document, max_errors=_MAX_ERRORS):
        index = next(iter(_indexes(error)), None)
        if index is not None:
            errors[FieldError(pointer(at, index), error.message[:1000])] = None
    if errors:
        raise InvalidArguments("The server's schema does not have these fields.", errors=list(errors))


def _selections(text: Any, index: int) -> tuple[SelectionNode, ...]:
    """Return the selections of one text; raise ValueError, which says what to change."""
    if not isinstance(text, str) or not text.strip() or len(text) > _MAX_TEXT_LENGTH:
        raise ValueError(_SYNTAX)
    try:
        # The closing brace stands on a line of its own: a comment ends with its line.
        parsed = parse(Source(f"{{\n{text}\n}}", name=str(index)), max_tokens=_MAX_TOKENS)
    except (GraphQLError, RecursionError):
        raise ValueError(_SYNTAX) from None
    definition = parsed.definitions[0]
    if len(parsed.definitions) != 1 or not isinstance(definition, OperationDefinitionNode):
        raise ValueError(_SYNTAX)
    check = _OnlyFields()
    visit(parsed, check)
    if check.found:
        raise ValueError(_FORBIDDEN)
    return definition.selection_set.selections


class _OnlyFields(Visitor):
    """Finds what refers to other parts of a document."""

    found = False

    def enter(self, node: Node, *_: Any) -> None:
        self.found = self.found or isinstance(node, VariableNode | DirectiveNode | FragmentSpreadNode)


class _Variables(Visitor):
    """Collects the names of the variables that are used."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def enter_variable(self, node: VariableNode, *_: Any) -> None:
        self.names.add(node.name.value)


def _indexes(error: GraphQLError) -> Iterator[str]:
    """Yield the indexes of the texts that an error is about."""
    for node in error.nodes or ():
        if node.loc is not None and node.loc.source.name.isdecimal():
            yield node.loc.source.name

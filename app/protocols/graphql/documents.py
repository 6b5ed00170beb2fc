"""The document of a call: the template's own, or one that is built of the field that it names."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLSchema,
    OperationDefinitionNode,
    SelectionSetNode,
    parse,
    parse_type,
    print_ast,
)

from app.core.errors import FieldError, InvalidArguments, InvalidInput
from app.core.text import pointer
from app.protocols.graphql.chosen_fields import FIELDS_ARGUMENT, check_fields, root_field, with_fields
from app.protocols.graphql.selections import Selector, selection_text
from app.protocols.graphql.template import GraphqlTemplate
from app.protocols.graphql.types import root_type, variable_type

_MAX_TOKENS: Final = 50_000
_NAME: Final = re.compile(r"[_A-Za-z][_0-9A-Za-z]*")


@dataclass(frozen=True, slots=True)
class GraphqlOperation:
    """An operation. Without a `document` one is built at each call, from its arguments.

    `fields_argument` is the argument that chooses the fields of the result, None where there is none.
    """

    kind: str
    name: str | None
    document: str | None
    fields_argument: str | None = None


def read_operation(model: GraphqlTemplate) -> GraphqlOperation | None:
    """Return the operation of a template, None where it names none.

    The kind is that of the document, which overrides `operation_type`; an `operation_name` that is not in the
    document is an error only where the document has several operations. Raise InvalidInput for a document or
    a type of a variable that cannot be parsed.
    """
    for name, text in (model.variable_types or {}).items():
        _check_type(name, text)
    if model.query is None:
        if model.operation_name is None:
            return None
        is_own = FIELDS_ARGUMENT in (model.variable_types or {})
        return GraphqlOperation(
            model.operation_type or "query",
            model.operation_name,
            None,
            model.fields_argument or (None if is_own else FIELDS_ARGUMENT),
        )
    try:
        parsed = parse(model.query, no_location=True, max_tokens=_MAX_TOKENS)
    except (GraphQLError, RecursionError):
        field_error = FieldError("/query", "Give one GraphQL document that can be parsed.")
        raise InvalidInput("The query is not valid GraphQL.", errors=[field_error]) from None
    operations = [one for one in parsed.definitions if isinstance(one, OperationDefinitionNode)]
    named = [one for one in operations if one.name and one.name.value == model.operation_name]
    chosen = named or operations
    if len(chosen) != 1:
        field_error = FieldError("/operation_name", "Name one operation of the query.")
        raise InvalidInput("The operation is ambiguous.", errors=[field_error])
    operation = chosen[0]
    if model.fields_argument is not None and root_field(parsed) is None:
        field_error = FieldError("/fields_argument", "Give a query of one operation with one root field.")
        raise InvalidInput("The fields of the operation cannot be chosen.", errors=[field_error])
    return GraphqlOperation(
        operation.operation.value,
        operation.name.value if operation.name else None,
        model.query,
        model.fields_argument,
    )


def document_of_call(
    operation: GraphqlOperation,
    names: Iterable[str],
    *,
    types: Mapping[str, str],
    chosen: SelectionSetNode | None,
    schema: GraphQLSchema | None,
    is_checked: bool = True,
) -> str:
    """Return the document of a call with the arguments `names` and the `chosen` fields, if any.

    Without a document of its own, the operation is the field of its name. The `schema`, where it is known,
    gives that field the types of its arguments and its selection, and, if `is_checked`, checks the chosen
    fields. Raise
    InvalidArguments for fields that the schema does not have, and for a name that is illegal in GraphQL.
    """
    text = operation.document or _field_document(operation, names, types=types, schema=schema)
    if chosen is None:
        return text
    document: DocumentNode = with_fields(parse(text, no_location=True, max_tokens=_MAX_TOKENS), chosen)
    if schema is not None and is_checked:
        check_fields(document, schema, at=pointer("", operation.fields_argument or FIELDS_ARGUMENT))
    return print_ast(document)


def _field_document(
    operation: GraphqlOperation,
    names: Iterable[str],
    *,
    types: Mapping[str, str],
    schema: GraphQLSchema | None,
) -> str:
    """Return a document that selects the field of the operation's name with these arguments as variables.

    Their types are those in `types`, else those of the schema, else String. Without a schema it has no
    selection, as in the released clients.
    """
    root = None if schema is None else root_type(schema, operation.kind)
    field = None if root is None else root.fields.get(operation.name or "")
    if field is not None:
        types = {name: variable_type(one) for name, one in field.args.items()} | dict(types)
    selection = "" if field is None or schema is None else selection_text(Selector(schema).select(field.type))
    argument_names = list(names)
    for name in argument_names:
        if not _NAME.fullmatch(name):
            raise InvalidArguments(
                "The tool does not know this argument.",
                errors=[FieldError(pointer("", name[:100]), "Names are letters, digits and underscores.")],
            )
    declared = ", ".join(f"${name}: {types.get(name, 'String')}" for name in argument_names)
    passed = ", ".join(f"{name}: ${name}" for name in argument_names)
    return (
        f"{operation.kind}{f' ({declared})' if declared else ''} "
        f"{{ {operation.name}{f'({passed})' if passed else ''}{selection} }}"
    )


def _check_type(name: str, text: str) -> None:
    at = pointer("/variable_types", name)
    try:
        if _NAME.fullmatch(name) and len(text) < 1000:
            parse_type(text, no_location=True)
            return
    except (GraphQLError, RecursionError):
        pass
    field_error = FieldError(at, "Give a GraphQL type, e.g. `[ID!]!`, for a legal name.")
    raise InvalidInput("A variable's type is not valid.", errors=[field_error])

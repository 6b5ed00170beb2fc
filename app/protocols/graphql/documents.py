"""The document of a call: the template's own, or one that is built as the released clients build it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from graphql import GraphQLError, OperationDefinitionNode, parse, parse_type

from app.errors import FieldError, InvalidArguments, InvalidInput
from app.protocols.graphql.template import GraphqlTemplate
from app.text import pointer

_MAX_TOKENS: Final = 50_000
_NAME: Final = re.compile(r"[_A-Za-z][_0-9A-Za-z]*")


@dataclass(frozen=True, slots=True)
class GraphqlOperation:
    """An operation. Without a `document` one is built at each call, from its arguments."""

    kind: str
    name: str | None
    document: str | None


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
        return GraphqlOperation(model.operation_type or "query", model.operation_name, None)
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
    return GraphqlOperation(
        operation.operation.value, operation.name.value if operation.name else None, model.query
    )


def build_document(operation: GraphqlOperation, names: Iterable[str], types: dict[str, str]) -> str:
    """Return a document that selects the field of the operation's name with these arguments as variables.

    Their types are those in `types`, else String. Raise InvalidArguments for a name that is illegal in
    GraphQL.
    """
    given = list(names)
    for name in given:
        if not _NAME.fullmatch(name):
            raise InvalidArguments(
                "The tool does not know this argument.",
                errors=[FieldError(pointer("", name[:100]), "Names are letters, digits and underscores.")],
            )
    declared = ", ".join(f"${name}: {types.get(name, 'String')}" for name in given)
    passed = ", ".join(f"{name}: ${name}" for name in given)
    return (
        f"{operation.kind}{f' ({declared})' if declared else ''} "
        f"{{ {operation.name}{f'({passed})' if passed else ''} }}"
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

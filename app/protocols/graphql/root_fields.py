"""The fields of the root type that a GraphQL document selects: what a call does, whatever it is called."""

from graphql import FieldNode, GraphQLError, OperationDefinitionNode, parse

_MAX_TOKENS = 20_000


def root_fields(query: str) -> tuple[str, ...]:
    """Return the names of the fields that the operations of a document select, in order and each once.

    Return () where they cannot be told: for a document that does not parse, and one with a fragment there.
    """
    try:
        document = parse(query, no_location=True, max_tokens=_MAX_TOKENS)
    except (GraphQLError, RecursionError):
        return ()
    names: dict[str, None] = {}
    for definition in document.definitions:
        if isinstance(definition, OperationDefinitionNode):
            for selection in definition.selection_set.selections:
                if not isinstance(selection, FieldNode):
                    return ()
                names[selection.name.value] = None
    return tuple(names)

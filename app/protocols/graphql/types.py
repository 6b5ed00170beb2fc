"""The parts of a schema that documents and tools are made of."""

from graphql import GraphQLArgument, GraphQLNonNull, GraphQLObjectType, GraphQLSchema, is_required_argument


def root_type(schema: GraphQLSchema, kind: str) -> GraphQLObjectType | None:
    """Return the root type of a kind of operation (query, mutation, subscription); None where it has none."""
    roots = {
        "query": schema.query_type,
        "mutation": schema.mutation_type,
        "subscription": schema.subscription_type,
    }
    return roots[kind]


def variable_type(argument: GraphQLArgument) -> str:
    """Return the type of a variable: nullable for an argument with a default (GraphQL section 5.8.5)."""
    kind = argument.type
    if isinstance(kind, GraphQLNonNull) and not is_required_argument(argument):
        return str(kind.of_type)
    return str(kind)

"""UTCP's `graphql`."""

import importlib
from typing import Any

from app.formats.utcp.variables import find_variables
from app.protocols.graphql.template import GraphqlTemplate
from app.protocols.record import DirectMode, Fields, NotDirect, ProtocolRecord
from app.protocols.shared.origins import url_origin


def _native(fields: Fields) -> dict[str, Any]:
    if find_variables(fields.get("query")):
        raise NotDirect("UTCP clients would substitute GraphQL's variables as their own.")
    return dict(fields)


def _without_chosen_fields(
    fields: Fields,
    required: frozenset[str],  # noqa: ARG001 - the argument never is.
) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the template without the argument that chooses fields, which only this gateway understands."""
    rest = {key: value for key, value in fields.items() if key != "fields_argument"}
    return rest, frozenset({fields["fields_argument"]} if len(rest) < len(fields) else ())


def _streams(fields: Fields) -> bool:
    return fields.get("operation_type") == "subscription"


def _http_method(fields: Fields) -> str | None:
    """Return GET for a query or a subscription, POST for a mutation; None where the schema decides."""
    if fields.get("operation_type") is None:
        return None
    return "POST" if fields["operation_type"] == "mutation" else "GET"


def _request(fields: Fields) -> tuple[str, str]:
    return "POST", str(fields.get("url", ""))


def _operations(fields: Fields) -> tuple[str, ...]:
    """Return the fields that a call selects of the root type; () where they are not known."""
    query = fields.get("query")
    if query is None:
        return (str(fields["operation_name"]),) if fields.get("operation_name") else ()
    try:
        # Only here: the library is optional, and takes long to import.
        module = importlib.import_module("app.protocols.graphql.root_fields")
    except ImportError:
        return ()
    found: tuple[str, ...] = module.root_fields(str(query))
    return found


PROTOCOL = ProtocolRecord(
    name="graphql",
    template=GraphqlTemplate,
    adapter="app.protocols.graphql.adapter:GraphqlAdapter",
    extra="graphql",
    libraries=("graphql", "websockets"),
    origin=url_origin,
    streams=_streams,
    is_introspected=True,
    http_method=_http_method,
    request=_request,
    operations=_operations,
    direct=DirectMode(without_unsendable=_without_chosen_fields, native=_native),
)

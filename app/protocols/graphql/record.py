"""UTCP's `graphql`."""

from typing import Any

from app.protocols.graphql.template import GraphqlTemplate
from app.protocols.record import DirectMode, Fields, NotDirect, ProtocolRecord
from app.protocols.shared.origins import url_origin
from app.utcp.variables import find_variables


def _native(fields: Fields) -> dict[str, Any]:
    if find_variables(fields.get("query")):
        raise NotDirect("UTCP clients take GraphQL's variables for their own.")
    return dict(fields)


PROTOCOL = ProtocolRecord(
    name="graphql",
    template=GraphqlTemplate,
    adapter="app.protocols.graphql.adapter:GraphqlAdapter",
    extra="graphql",
    libraries=("graphql", "websockets"),
    origin=url_origin,
    is_introspected=True,
    direct=DirectMode(native=_native),
)

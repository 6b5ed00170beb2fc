"""`postgres`: queries of a PostgreSQL database."""

from functools import partial

from app.protocols.postgres.template import PostgresTemplate
from app.protocols.record import DirectMode, Fields, NotDirect, ProtocolRecord, reads_only
from app.protocols.shared.origins import socket_address, socket_origin


def _not_direct(fields: Fields) -> dict[str, object]:  # noqa: ARG001 - none of them is.
    raise NotDirect("Clients of UTCP do not speak the protocol of PostgreSQL.")


PROTOCOL = ProtocolRecord(
    name="postgres",
    template=PostgresTemplate,
    adapter="app.protocols.postgres.adapter:PostgresAdapter",
    origin=partial(socket_origin, "postgres"),
    address=partial(socket_address, "postgres"),
    socket_schemes=("postgres",),
    http_method=reads_only,
    direct=DirectMode(versions=frozenset(), native=_not_direct),
)

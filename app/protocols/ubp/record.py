"""UBP: commands for executors that connect to the gateway."""

from app.protocols.record import DirectMode, Fields, NotDirect, ProtocolRecord
from app.protocols.ubp.template import UbpTemplate


def _origin(fields: Fields) -> str:
    """Return `ubp://<executor>`: which machine it is does not matter, since it connects to the gateway."""
    return f"ubp://{fields['executor']}"


def _not_direct(fields: Fields) -> dict[str, object]:  # noqa: ARG001 - none of them is.
    raise NotDirect("Its executor is connected to the gateway only.")


def _command_name(fields: Fields) -> str:
    return str(fields["command_name"])


def _operations(fields: Fields) -> tuple[str, ...]:
    return (_command_name(fields),)


PROTOCOL = ProtocolRecord(
    name="ubp",
    template=UbpTemplate,
    adapter="app.protocols.ubp.adapter:UbpAdapter",
    origin=_origin,
    is_connected=True,
    command_name=_command_name,
    operations=_operations,
    direct=DirectMode(versions=frozenset(), native=_not_direct),
)

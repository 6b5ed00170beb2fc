"""UTCP's `tcp`."""

from functools import partial

from app.protocols.record import ProtocolRecord
from app.protocols.shared.origins import socket_address, socket_origin
from app.protocols.tcp.template import TcpTemplate

PROTOCOL = ProtocolRecord(
    name="tcp",
    template=TcpTemplate,
    adapter="app.protocols.tcp.adapter:TcpAdapter",
    origin=partial(socket_origin, "tcp"),
    address=partial(socket_address, "tcp"),
    socket_schemes=("tcp",),
    inherits_template=True,
)

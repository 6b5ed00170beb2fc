"""UTCP's `udp`."""

from functools import partial

from app.protocols.record import ProtocolRecord
from app.protocols.shared.origins import socket_address, socket_origin
from app.protocols.udp.template import UdpTemplate

PROTOCOL = ProtocolRecord(
    name="udp",
    template=UdpTemplate,
    adapter="app.protocols.udp.adapter:UdpAdapter",
    origin=partial(socket_origin, "udp"),
    address=partial(socket_address, "udp"),
    socket_schemes=("udp",),
    datagram_schemes=("udp",),
    inherits_template=True,
)

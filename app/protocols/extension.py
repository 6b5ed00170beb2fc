"""What a package of others that adds a protocol imports from the gateway, and nothing else.

    ProtocolRecord, CallTemplate       what the protocol is called, and how a tool of it is described
    Adapter, AdapterContext, Call      what the package implements, and what it is given
    Discovered, Result, value_result   what it returns
    GatewayError and its subclasses    what it raises

These names keep their meaning within a minor release; the modules that define them may change.
"""

from app.core.errors import (
    GatewayError,
    InvalidInput,
    UpstreamError,
    UpstreamMalformed,
    UpstreamTimeout,
)
from app.formats.utcp.call_template import CallTemplate, compile_template
from app.outbound.network import Address
from app.protocols.base import Adapter, AdapterContext, Call, Discovered, Result
from app.protocols.record import ProtocolRecord
from app.protocols.shared.effects import UnknownEffects
from app.protocols.shared.origins import socket_address, socket_origin
from app.protocols.shared.results import JSON, time_limit, value_result
from app.protocols.shared.sealed_fields import field_values

__all__ = [
    "JSON",
    "Adapter",
    "AdapterContext",
    "Address",
    "Call",
    "CallTemplate",
    "Discovered",
    "GatewayError",
    "InvalidInput",
    "ProtocolRecord",
    "Result",
    "UnknownEffects",
    "UpstreamError",
    "UpstreamMalformed",
    "UpstreamTimeout",
    "compile_template",
    "field_values",
    "socket_address",
    "socket_origin",
    "time_limit",
    "value_result",
]

"""What a package of others that adds a protocol imports from the gateway, and nothing else.

    ProtocolRecord, CallTemplate       what the protocol is called, and how a tool of it is described
    Adapter, AdapterContext, Call      what the package implements, and what it is given
    Network, HttpBasedAdapter,         how an adapter reaches its upstream: addresses that are checked, HTTP
    WebSocket                          by the gateway's engine, WebSocket
    Discovered, Result, value_result,  what it returns
    event_result
    GatewayError and its subclasses    what it raises

These names keep their meaning within a minor release; the modules that define them may change. Records are
imported at the start, so that what only adapters need is imported when it is first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from app.core import exact_json
from app.core.deadlines import Deadline, get_timer_queue
from app.core.errors import (
    BlockedAddress,
    FieldError,
    GatewayError,
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamError,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
    clone_error,
)
from app.formats.utcp.call_template import CallTemplate, compile_template
from app.formats.utcp.paths import HTTP_SCHEMES, compile_url
from app.outbound.attach import Headers, attach, sign_upgrade
from app.outbound.network import Address, Network
from app.protocols.base import Adapter, AdapterContext, Call, Discovered, Result, StreamEvent
from app.protocols.record import DirectMode, Fields, ProtocolRecord
from app.protocols.shared.effects import UnknownEffects
from app.protocols.shared.origins import WEBSOCKET_SCHEMES, socket_address, socket_origin
from app.protocols.shared.results import JSON, check_size, event_result, time_limit, value_result
from app.protocols.shared.sealed_fields import field_values

if TYPE_CHECKING:
    from app.outbound.error_bodies import sanitize_error_body
    from app.protocols.requests.plan_compiler import PreparedRequest
    from app.protocols.shared.described import describe_headers
    from app.protocols.shared.http_based import HttpBasedAdapter
    from app.protocols.shared.messages import map_encoding_errors
    from app.protocols.shared.websocket_client import Upgrade, WebSocket

_MODULES: Final = {
    "HttpBasedAdapter": "app.protocols.shared.http_based",
    "PreparedRequest": "app.protocols.requests.plan_compiler",
    "Upgrade": "app.protocols.shared.websocket_client",
    "WebSocket": "app.protocols.shared.websocket_client",
    "describe_headers": "app.protocols.shared.described",
    "map_encoding_errors": "app.protocols.shared.messages",
    "sanitize_error_body": "app.outbound.error_bodies",
}

__all__ = [
    "HTTP_SCHEMES",
    "JSON",
    "WEBSOCKET_SCHEMES",
    "Adapter",
    "AdapterContext",
    "Address",
    "BlockedAddress",
    "Call",
    "CallTemplate",
    "Deadline",
    "DirectMode",
    "Discovered",
    "FieldError",
    "Fields",
    "GatewayError",
    "Headers",
    "HttpBasedAdapter",
    "InvalidArguments",
    "InvalidInput",
    "Network",
    "PreparedRequest",
    "ProtocolRecord",
    "ResponseTooLarge",
    "Result",
    "StreamEvent",
    "UnknownEffects",
    "Upgrade",
    "UpstreamError",
    "UpstreamErrorResponse",
    "UpstreamMalformed",
    "UpstreamRejected",
    "UpstreamTimeout",
    "UpstreamUnauthorized",
    "UpstreamUnreachable",
    "WebSocket",
    "attach",
    "check_size",
    "clone_error",
    "compile_template",
    "compile_url",
    "describe_headers",
    "event_result",
    "exact_json",
    "field_values",
    "get_timer_queue",
    "map_encoding_errors",
    "sanitize_error_body",
    "sign_upgrade",
    "socket_address",
    "socket_origin",
    "time_limit",
    "value_result",
]


def __getattr__(name: str) -> Any:
    """Return a name that only adapters need; raise AttributeError for any other."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)

"""The tools of a gateway in Python: search them, give them to a model, call them."""

from utcp_gateway_client.gateway.approvals import ApprovalPending, AsyncApprovalPending, SyncApprovalPending
from utcp_gateway_client.gateway.async_client import AsyncGateway, AsyncStream
from utcp_gateway_client.gateway.client import Gateway, Stream
from utcp_gateway_client.gateway.errors import GatewayError, ProblemError
from utcp_gateway_client.gateway.operations import CallOptions
from utcp_gateway_client.gateway.results import CallResult
from utcp_gateway_client.gateway.streams import StreamEvent

__all__ = [
    "ApprovalPending",
    "AsyncApprovalPending",
    "AsyncGateway",
    "AsyncStream",
    "CallOptions",
    "CallResult",
    "Gateway",
    "GatewayError",
    "ProblemError",
    "Stream",
    "StreamEvent",
    "SyncApprovalPending",
]

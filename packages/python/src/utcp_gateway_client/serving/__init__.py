"""Tools of this process, served to others: over HTTP with a UTCP manual, or as an executor of a gateway."""

from utcp_gateway_client.serving.app import ToolsApp
from utcp_gateway_client.serving.connection import GatewayRejected
from utcp_gateway_client.serving.executor import Executor
from utcp_gateway_client.serving.serve import serve

__all__ = ["Executor", "GatewayRejected", "ToolsApp", "serve"]

"""A loop over a language model and its tools."""

from utcp_gateway_client.loop.events import (
    CallFinished,
    CallRecord,
    CallStarted,
    Event,
    MessagesAdded,
    ModelResponded,
    RunFinished,
    RunResult,
    TextDelta,
)
from utcp_gateway_client.loop.limits import Hooks, Limits
from utcp_gateway_client.loop.model import CallAnswer, ChatModel, Message, ToolCall, Usage
from utcp_gateway_client.loop.models import Anthropic, Gemini, JsonPrompt, OpenAIChat, OpenAIResponses
from utcp_gateway_client.loop.runner import run, run_sync, stream
from utcp_gateway_client.loop.sources import GatewayClient, GatewayTools

__all__ = [
    "Anthropic",
    "CallAnswer",
    "CallFinished",
    "CallRecord",
    "CallStarted",
    "ChatModel",
    "Event",
    "GatewayClient",
    "GatewayTools",
    "Gemini",
    "Hooks",
    "JsonPrompt",
    "Limits",
    "Message",
    "MessagesAdded",
    "ModelResponded",
    "OpenAIChat",
    "OpenAIResponses",
    "RunFinished",
    "RunResult",
    "TextDelta",
    "ToolCall",
    "Usage",
    "run",
    "run_sync",
    "stream",
]

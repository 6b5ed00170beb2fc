"""A loop over a language model and its tools."""

from utcp_gateway_client.loop.events import (
    ApprovalRequired,
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
from utcp_gateway_client.loop.gateways import GatewayTools, PendingApproval
from utcp_gateway_client.loop.limits import Hooks, Limits
from utcp_gateway_client.loop.model import CallAnswer, ChatModel, Message, ToolCall, Usage
from utcp_gateway_client.loop.models import Anthropic, Gemini, JsonPrompt, OpenAIChat, OpenAIResponses
from utcp_gateway_client.loop.runner import run, run_sync, stream

__all__ = [
    "Anthropic",
    "ApprovalRequired",
    "CallAnswer",
    "CallFinished",
    "CallRecord",
    "CallStarted",
    "ChatModel",
    "Event",
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
    "PendingApproval",
    "RunFinished",
    "RunResult",
    "TextDelta",
    "ToolCall",
    "Usage",
    "run",
    "run_sync",
    "stream",
]

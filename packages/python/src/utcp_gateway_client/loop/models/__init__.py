"""Model providers by their own SDKs, which are loaded when a model is first asked."""

from utcp_gateway_client.loop.model import ChatModel
from utcp_gateway_client.loop.models.anthropic import Anthropic
from utcp_gateway_client.loop.models.gemini import Gemini
from utcp_gateway_client.loop.models.json_prompt import JsonPrompt
from utcp_gateway_client.loop.models.openai_chat import OpenAIChat
from utcp_gateway_client.loop.models.openai_responses import OpenAIResponses

__all__ = ["Anthropic", "Gemini", "JsonPrompt", "OpenAIChat", "OpenAIResponses", "model_named"]


def model_named(name: str) -> ChatModel:
    """Return the model of the provider that the name begins with: `claude-`, `gpt-` or `gemini-`.

    Raises ValueError for others, whose provider and address have to be given.
    """
    if name.startswith("claude-"):
        return Anthropic(name)
    if name.startswith("gpt-"):
        return OpenAIChat(name)
    if name.startswith("gemini-"):
        return Gemini(name)
    raise ValueError(f"Unsupported model: {name}. Give a model with its provider, as OpenAIChat(...).")

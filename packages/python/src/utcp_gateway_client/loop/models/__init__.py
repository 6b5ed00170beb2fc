"""Model providers by their own SDKs, which are loaded when a model is first asked."""

import os
from collections.abc import Mapping
from typing import Final

from utcp_gateway_client.loop.model import ChatModel
from utcp_gateway_client.loop.models.anthropic import Anthropic
from utcp_gateway_client.loop.models.gemini import Gemini
from utcp_gateway_client.loop.models.json_prompt import JsonPrompt
from utcp_gateway_client.loop.models.openai_chat import OpenAIChat
from utcp_gateway_client.loop.models.openai_responses import OpenAIResponses

__all__ = ["Anthropic", "Gemini", "JsonPrompt", "OpenAIChat", "OpenAIResponses", "model_named"]


_PREFIXES: Final[dict[str, type[OpenAIChat | Anthropic | Gemini]]] = {
    "claude-": Anthropic, "gpt-": OpenAIChat, "gemini-": Gemini,
}  # fmt: skip
_BASE_URLS: Final[dict[str, type[OpenAIChat | Anthropic | Gemini]]] = {
    "OPENAI_BASE_URL": OpenAIChat, "ANTHROPIC_BASE_URL": Anthropic, "GOOGLE_GEMINI_BASE_URL": Gemini,
}  # fmt: skip
"""The variables from which the SDKs read the address of the server."""


def model_named(
    name: str, base_url: str | None = None, *, environment: Mapping[str, str] = os.environ
) -> ChatModel:
    """Return the model of the provider that the name begins with: `claude-`, `gpt-` or `gemini-`.

    For other names, the base URL of a server decides: `base_url` is that of a server with the Chat
    Completions API; without it, `OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL` or `GOOGLE_GEMINI_BASE_URL` of the
    environment.
    Raises ValueError where none of these variables is set, or several.
    """
    for prefix, kind in _PREFIXES.items():
        if name.startswith(prefix):
            return kind(name, base_url)
    if base_url is not None:
        return OpenAIChat(name, base_url)
    variables = [variable for variable in _BASE_URLS if environment.get(variable)]
    if len(variables) == 1:
        return _BASE_URLS[variables[0]](name)
    advice = "Give a model with its provider, as OpenAIChat(...)"
    if variables:
        raise ValueError(f"Unsupported model: {name}. {advice}: {' and '.join(variables)} are set.")
    raise ValueError(f"Unsupported model: {name}. {advice}, or set OPENAI_BASE_URL.")

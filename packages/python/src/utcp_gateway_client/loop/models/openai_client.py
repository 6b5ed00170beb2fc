"""What models behind both APIs of OpenAI have in common: the client of its SDK, and the texts of errors."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from utcp_gateway_client.loop.model import CallAnswer, ModelRequest, ModelTurn, Respond


def error_text(answer: CallAnswer) -> str:
    """Return the text of an answer where the dialect has no flag for errors."""
    return f"Error: {answer.text}" if answer.is_error else answer.text


@dataclass(frozen=True)
class OpenAIModel(ABC):
    """A model that is asked through `openai.AsyncOpenAI`.

    Without `api_key` and `base_url`, the SDK reads them from its environment variables. `options` are further
    members of each request (`temperature`, ...), `client_options` arguments of `openai.AsyncOpenAI`.
    """

    name: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    options: dict[str, Any] = field(default_factory=dict)
    client_options: dict[str, Any] = field(default_factory=dict, repr=False)
    provider: str = field(default="openai", init=False)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Respond]:
        from openai import AsyncOpenAI  # noqa: PLC0415 - an extra

        async with AsyncOpenAI(api_key=self.api_key, base_url=self.base_url, **self.client_options) as client:

            async def respond(request: ModelRequest) -> ModelTurn:
                return await self._respond(client, request)

            yield respond

    @abstractmethod
    async def _respond(self, client: Any, request: ModelRequest) -> ModelTurn:
        """Send one request by the client of the SDK, and return the model's turn."""

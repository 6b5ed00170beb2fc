"""Run by the interpreter that has utcp_gateway_client: its loop, with a model of the servers in model_providers.py.

    python_loop.py DIALECT PROVIDER_URL GATEWAY_URL KEY

Prints the last text of the model, why the run has ended, and which calls were errors, as one line of JSON.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import httpx2
from utcp_gateway_client.loop import Anthropic, GatewayTools, Gemini, OpenAIChat, OpenAIResponses, run

MODELS: dict[str, Any] = {
    "openai-chat": OpenAIChat("m", base_url=f"{sys.argv[2]}/openai", api_key="k"),
    "openai-responses": OpenAIResponses("m", base_url=f"{sys.argv[2]}/openai", api_key="k"),
    "anthropic": Anthropic("m", base_url=f"{sys.argv[2]}/anthropic", api_key="k"),
    "gemini": Gemini("m", base_url=f"{sys.argv[2]}/gemini", api_key="k", api_version="v1beta"),
}


class Client:
    """What the loop needs of a gateway, by requests of HTTP."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def tools(self, query_or_names: str | Sequence[str], /, *, format: str) -> Any:  # noqa: A002
        query = {"q": str(query_or_names), "format": format, "limit": "20"}
        found = await self._http.get("/tools/search", params=query)
        found.raise_for_status()
        return found.json()["tools"]

    async def run(self, message: Any, /, *, format: str) -> Any:  # noqa: A002
        done = await self._http.post("/tool-calls", json=message, params={"format": format})
        done.raise_for_status()
        return done.json()["messages"]


async def main() -> None:
    headers = {"Authorization": f"Bearer {sys.argv[4]}"}
    async with httpx2.AsyncClient(base_url=sys.argv[3], headers=headers, trust_env=False) as http:
        tools = GatewayTools(Client(http), query="search books")
        result = await run("Which books about the sea are there?", model=MODELS[sys.argv[1]], tools=tools)
    errors = [call.is_error for call in result.calls]
    print(json.dumps({"text": result.text, "stopped": result.stopped, "errors": sorted(errors)}))


asyncio.run(main())

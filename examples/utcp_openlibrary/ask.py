"""Answer prompts by a model without tool calling, with the tools of a gateway that a search finds for each.

ask.py PROMPT...
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

from utcp_gateway_client.gateway import AsyncGateway
from utcp_gateway_client.loop import JsonPrompt, OpenAIChat, run

MODEL = os.environ.get("MODEL", "gpt-5")


async def main(prompts: list[str]) -> None:
    """Answer the prompts as one conversation."""
    # Any server of Chat Completions will do (OPENAI_BASE_URL): the model writes its calls into its text, as
    # {"tool_name": ..., "arguments": {...}}, and the requests have no tools.
    model = JsonPrompt(OpenAIChat(MODEL))
    history: Sequence[dict[str, Any]] = []
    async with AsyncGateway() as gateway:
        for prompt in prompts:
            result = await run(prompt, model=model, tools=gateway, history=history)
            history = result.history
            print([each.call.name for each in result.calls])
            print(result.text)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

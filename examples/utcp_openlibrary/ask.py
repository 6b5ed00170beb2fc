"""Answer prompts by a model without tool calling, with the tools of a gateway that a search finds for each.

ask.py PROMPT...
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

from utcp_gateway_client.gateway import Gateway
from utcp_gateway_client.loop import JsonPrompt, OpenAIChat, run_sync

MODEL = os.environ.get("MODEL", "gpt-5")


def main(prompts: list[str]) -> None:
    """Answer the prompts as one conversation."""
    # Any server of Chat Completions will do (OPENAI_BASE_URL): the model writes its calls into its text, as
    # {"tool_name": ..., "arguments": {...}}, and the requests have no tools.
    model = JsonPrompt(OpenAIChat(MODEL))
    history: Sequence[dict[str, Any]] = []
    with Gateway() as gateway:
        for prompt in prompts:
            result = run_sync(prompt, model=model, tools=gateway, history=history)
            history = result.history
            print([each.call.name for each in result.calls])
            print(result.text)


if __name__ == "__main__":
    main(sys.argv[1:])

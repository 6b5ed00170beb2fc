"""Run by the interpreter that has utcp_gateway_client: its loop, with a model of the servers in model_providers.py.

    python_loop.py DIALECT PROVIDER_URL GATEWAY_URL KEY [TOOLSET APPROVER_KEY]

In the second form, the blocking client is used within a toolset, and calls are approved with the other key. Prints the last text
of the model, why the run has ended, which calls were errors, and the number of approvals, as one line of JSON.
"""

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

from utcp_gateway_client.gateway import AsyncGateway, Gateway, errors
from utcp_gateway_client.loop import (
    Anthropic,
    CallAnswer,
    GatewayTools,
    Gemini,
    Hooks,
    JsonPrompt,
    OpenAIChat,
    OpenAIResponses,
    PendingApproval,
    RunResult,
    run,
    run_sync,
)

QUESTION = "Which books about the sea are there?"
MODELS: dict[str, Any] = {
    "openai-chat": OpenAIChat("m", base_url=f"{sys.argv[2]}/openai", api_key="k"),
    "openai-responses": OpenAIResponses("m", base_url=f"{sys.argv[2]}/openai", api_key="k"),
    "anthropic": Anthropic("m", base_url=f"{sys.argv[2]}/anthropic", api_key="k"),
    "gemini": Gemini("m", base_url=f"{sys.argv[2]}/gemini", api_key="k", api_version="v1beta"),
    "json-prompt": JsonPrompt(OpenAIChat("m", base_url=f"{sys.argv[2]}/prompt", api_key="k")),
}


async def searched(url: str, key: str) -> RunResult:
    """Run with the tools that a search finds."""
    async with AsyncGateway(url, key, trust_env=False) as gateway:
        tools = GatewayTools(gateway, query="search books")
        return await run(QUESTION, model=MODELS[sys.argv[1]], tools=tools)


def approved(url: str, key: str, toolset: str, approver: str, ids: list[str]) -> RunResult:
    """Run with the tools of a toolset, and approve what requires approval."""

    async def approve(pending: PendingApproval) -> CallAnswer:
        ids.append(pending.id)
        with suppress(errors.PermissionDenied):
            # A key does not approve its own calls.
            await pending.approve()
            ids.append("approved by its own key")
        async with AsyncGateway(url, approver, trust_env=False) as reviewer:
            await reviewer.approve(pending.id)
        return await pending.wait()

    hooks = Hooks(approval_required=approve)
    with Gateway(url, key, toolset, trust_env=False) as gateway:
        return run_sync(QUESTION, model=MODELS[sys.argv[1]], tools=gateway, hooks=hooks)


def main() -> None:
    """Print how the run has ended."""
    ids: list[str] = []
    if len(sys.argv) > 5:
        result = approved(sys.argv[3], sys.argv[4], sys.argv[5], sys.argv[6], ids)
    else:
        result = asyncio.run(searched(sys.argv[3], sys.argv[4]))
    errors = sorted(call.is_error for call in result.calls)
    print(
        json.dumps({"text": result.text, "stopped": result.stopped, "errors": errors, "approvals": len(ids)})
    )


main()

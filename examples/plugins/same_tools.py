"""One prompt and one set of tools for several models, of any provider.

same_tools.py PROMPT TOOLSET,... MODEL...
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack

from utcp_gateway_client.gateway import AsyncGateway
from utcp_gateway_client.loop import GatewayTools, Limits, run


async def main(prompt: str, toolsets: list[str], models: list[str]) -> None:
    """Print the text of each model, and the tools that it has used."""
    async with AsyncExitStack() as stack:
        tools = []
        for name in toolsets:
            gateway = await stack.enter_async_context(AsyncGateway(toolset=name))
            members = (await gateway.export()).report.tools
            tools.append(GatewayTools(gateway, names=[each.name for each in members]))
        for model in models:
            result = await run(prompt, model=model, tools=tools, limits=Limits(max_iterations=10))
            used = sorted({each.call.name for each in result.calls})
            print(json.dumps({"model": model, "toolsUsed": used, "response": result.text}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2].split(","), sys.argv[3:]))

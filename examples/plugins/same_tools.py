"""One prompt and one set of tools for several models, of any provider.

same_tools.py PROMPT TOOLSET,... MODEL...
"""

import json
import sys

from utcp_gateway_client.gateway import Gateway
from utcp_gateway_client.loop import GatewayTools, Limits, run_sync


def main(prompt: str, toolsets: list[str], models: list[str]) -> None:
    """Print the text of each model, and the tools that it has used."""
    tools = [GatewayTools(Gateway(toolset=name), search=False) for name in toolsets]
    for model in models:
        result = run_sync(prompt, model=model, tools=tools, limits=Limits(max_iterations=10))
        used = sorted({each.call.name for each in result.calls})
        print(json.dumps({"model": model, "toolsUsed": used, "response": result.text}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), sys.argv[3:])

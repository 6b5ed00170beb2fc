"""One prompt and one set of tools for several models, of any provider.

same_tools.py PROMPT PLUGIN,... MODEL...

A plugin that is enabled is a toolset of its name; the name of any other toolset will do, too.
"""

import json
import sys

from utcp_gateway_client.gateway import Gateway, ProblemError
from utcp_gateway_client.loop import GatewayTools, Limits, run_sync


def tools_of(names: list[str]) -> list[GatewayTools]:
    """Return the tools of the named plugins; skip unknown ones with a warning."""
    found = []
    for name in names:
        gateway = Gateway(toolset=name)
        try:
            gateway.export(format="anthropic")
        except ProblemError as error:
            if error.status != 404:
                raise
            print(f"Plugin '{name}' not found in registry", file=sys.stderr)
            continue
        found.append(GatewayTools(gateway, search=False))
    return found


def main(prompt: str, plugins: list[str], models: list[str]) -> None:
    """Print the text of each model, and the tools that it has used."""
    tools = tools_of(plugins)
    for model in models:
        result = run_sync(prompt, model=model, tools=tools, limits=Limits(max_iterations=10))
        used = sorted({each.call.name for each in result.calls})
        print(json.dumps({"model": model, "toolsUsed": used, "response": result.text}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), sys.argv[3:])

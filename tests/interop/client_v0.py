"""Run by the interpreter that has utcp 0.2.3: client_v1.py with a 0.x client, whose streams are results of `call_tool`."""

import asyncio
import json
import sys

from utcp.client.utcp_client import UtcpClient
from utcp.shared.provider import HttpProvider


async def main(
    url: str,
    token: str,
    calls: list[tuple[str, dict[str, object]]],
    more: dict[str, str],
    mode: str,
) -> dict[str, object]:
    named = {"GATEWAY_TOKEN": token} | more
    variables = named | {f"gw_{name}": value for name, value in named.items()}
    client = await UtcpClient.create(config={"variables": variables})
    provider = HttpProvider(
        name="gw",
        provider_type="http",
        url=url,
        http_method="GET",
        headers={"Authorization": f"Bearer {token}"},
    )
    tools = await client.register_tool_provider(provider)
    found = await client.search_tools("book catalogue", limit=5)
    results: list[dict[str, object]] = []
    for tool, arguments in calls:
        try:
            result = await client.call_tool(f"gw.{tool}", arguments)
            results.append({"ok": [piece async for piece in result] if mode == "stream" else result})
        except Exception as error:  # noqa: BLE001 - the test examines it
            results.append({"error": f"{type(error).__name__}: {error}"})
    return {
        "success": bool(tools),
        "errors": [],
        "tools": [tool.name for tool in tools],
        "found": [tool.name for tool in found],
        "results": results,
    }


for line in sys.stdin:
    print(json.dumps(asyncio.run(main(*json.loads(line)))), flush=True)

"""Run by the interpreter that has utcp 1.x: registers a manual, lists, searches and calls, prints JSON.

Arguments: the manual's URL, the token, a JSON list of [tool, arguments] calls, and further variables as JSON.
"""

import asyncio
import json
import sys

from utcp.utcp_client import UtcpClient
from utcp_http.http_call_template import HttpCallTemplate


async def main(
    url: str, token: str, calls: list[tuple[str, dict[str, object]]], more: dict[str, str]
) -> None:
    variables = {"gw_GATEWAY_TOKEN": token} | {f"gw_{name}": value for name, value in more.items()}
    client = await UtcpClient.create(config={"variables": variables})
    template = HttpCallTemplate(
        name="gw",
        call_template_type="http",
        url=url,
        http_method="GET",
        headers={"Authorization": f"Bearer {token}"},
    )
    registered = await client.register_manual(template)
    found = await client.search_tools("book catalogue", limit=5)
    results = []
    for tool, arguments in calls:
        try:
            results.append({"ok": await client.call_tool(f"gw.{tool}", arguments)})
        except Exception as error:  # noqa: BLE001 - the test judges it
            results.append({"error": f"{type(error).__name__}: {error}"})
    print(
        json.dumps(
            {
                "success": registered.success,
                "errors": registered.errors,
                "tools": [tool.name for tool in registered.manual.tools],
                "found": [tool.name for tool in found],
                "results": results,
            }
        )
    )


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])))

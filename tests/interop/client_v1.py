"""Run by the interpreter that has utcp 1.x: registers a manual, lists, searches and calls.

Each line of its input has, as JSON, the manual's URL, the token, a list of [tool, arguments] calls, further variables, and `stream` where
the calls are streams, of which the result is the list of their pieces. It prints the result of each line as one.
"""

import asyncio
import json
import logging
import sys

from utcp.utcp_client import UtcpClient
from utcp_http.http_call_template import HttpCallTemplate


async def main(
    url: str,
    token: str,
    calls: list[tuple[str, dict[str, object]]],
    more: dict[str, str],
    mode: str,
) -> dict[str, object]:
    logging.disable(logging.CRITICAL)
    variables = {"gw_GATEWAY_TOKEN": token} | {f"gw_{name}": value for name, value in more.items()}
    client = await UtcpClient.create(config={"variables": variables})
    template = HttpCallTemplate(
        name="gw",
        call_template_type="http",
        url=url,
        http_method="GET",
        headers={"Authorization": f"Bearer {token}"},
        allowed_communication_protocols=["http", "streamable_http"] if mode == "stream" else None,
    )
    registered = await client.register_manual(template)
    found = await client.search_tools("book catalogue", limit=5)
    results: list[dict[str, object]] = []
    for tool, arguments in calls:
        name = f"gw.{tool}"
        try:
            if mode == "stream":
                results.append({"ok": [piece async for piece in client.call_tool_streaming(name, arguments)]})
            else:
                results.append({"ok": await client.call_tool(name, arguments)})
        except Exception as error:  # noqa: BLE001 - the test examines it
            results.append({"error": f"{type(error).__name__}: {error}"})
    return {
        "success": registered.success,
        "errors": registered.errors,
        "tools": [tool.name for tool in registered.manual.tools],
        "found": [tool.name for tool in found],
        "results": results,
    }


for line in sys.stdin:
    print(json.dumps(asyncio.run(main(*json.loads(line)))), flush=True)

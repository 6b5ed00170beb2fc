"""Lists and calls over MCP by a Python client. Each line of its input has, as JSON, the URL, the key, calls and the client's name.

It prints a line for each: the names of the tools, and each call's `[is_error, [[type, text or MIME type], ...]]`, or
`["raised", text]`. With a fifth argument, `progress`, the calls ask for progress, whose reports are printed, too.
"""

import asyncio
import json
import sys


def _contents(result):
    found = [
        [
            one.type,
            getattr(one, "text", None) or getattr(one, "mimeType", None) or getattr(one, "mime_type", ""),
        ]
        for one in result.content
    ]
    is_error = getattr(result, "is_error", None)
    return [bool(getattr(result, "isError", False) if is_error is None else is_error), found]


REPORTS = []
OPTIONS = []


async def _on_progress(progress, total, message):
    REPORTS.append([progress, total, message])


def _with_progress(call, argument="progress_callback"):
    options = {argument: _on_progress} if "progress" in OPTIONS else {}
    return lambda name, arguments: call(name, arguments, **options)


async def _call_all(call, calls):
    results = []
    for name, arguments in calls:
        try:
            results.append(_contents(await call(name, arguments)))
        except Exception as error:  # noqa: BLE001 - what clients raise is the result.
            results.append(["raised", str(error)])
    return results


async def _all_pages(page):
    tools, cursor = [], None
    while True:
        found = await page(cursor)
        tools += found.tools
        cursor = getattr(found, "nextCursor", None) or getattr(found, "next_cursor", None)
        if not cursor:
            return tools


async def _version_1(url, headers, calls):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with (
        streamablehttp_client(url, headers=headers) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        tools = await _all_pages(lambda cursor: session.list_tools(cursor=cursor))
        return [tool.name for tool in tools], await _call_all(_with_progress(session.call_tool), calls)


async def _version_2(url, headers, calls, mode):
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        tools = await _all_pages(lambda cursor: client.list_tools(cursor=cursor))
        return [tool.name for tool in tools], await _call_all(_with_progress(client.call_tool), calls)


async def _fastmcp(url, headers, calls):
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport

    async with Client(StreamableHttpTransport(url, headers=headers)) as client:
        tools = await client.list_tools()
        call = _with_progress(client.call_tool_mcp, "progress_handler")
        return [tool.name for tool in tools], await _call_all(call, calls)


async def _langchain(url, headers, calls):
    from langchain_mcp_adapters.client import MultiServerMCPClient

    client = MultiServerMCPClient(
        {"gateway": {"transport": "streamable_http", "url": url, "headers": headers}}
    )
    tools = {tool.name: tool for tool in await client.get_tools()}
    results = []
    for name, arguments in calls:
        try:
            found = await tools[name].ainvoke(arguments)
            found = [{"type": "text", "text": found}] if isinstance(found, str) else found
            results.append(
                [False, [[one["type"], one.get("text") or one.get("mime_type", "")] for one in found]]
            )
        except Exception as error:  # noqa: BLE001 - what clients raise is the result.
            results.append(["raised", str(error)])
    return list(tools), results


def _run(url, key, calls, client, *options):
    REPORTS.clear()
    OPTIONS[:] = options
    headers = {"Authorization": f"Bearer {key}"}
    kind, _, mode = client.partition("/")
    if kind == "mcp2":
        running = _version_2(url, headers, calls, mode)
    else:
        running = {"mcp1": _version_1, "fastmcp": _fastmcp, "langchain-mcp": _langchain}[kind](
            url, headers, calls
        )
    tools, results = asyncio.run(running)
    return {"tools": tools, "results": results, "progress": REPORTS}


for line in sys.stdin:
    print(json.dumps(_run(*json.loads(line))), flush=True)

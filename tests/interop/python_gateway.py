"""Run by the interpreter that has utcp_gateway_client: uses a gateway's tools with both clients, and prints JSON.

The gateway and its key are those of the environment; the argument is the id of a toolset or nothing.
"""

import asyncio
import json
from typing import Any

from openai.types.chat import ChatCompletion
from utcp_gateway_client.gateway import AsyncGateway, CallOptions, Gateway, errors

QUERY = {"q": "sea", "limit": 3}


def completion(name: str, arguments: dict[str, Any]) -> ChatCompletion:
    """Return what the SDK of OpenAI returns where the model calls a tool."""
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return ChatCompletion.model_validate(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )


def blocking() -> dict[str, Any]:
    """Use the blocking client."""
    seen: dict[str, Any] = {}
    with Gateway() as gateway:
        seen["health"] = gateway.health().status
        seen["scopes"] = len(gateway.me().scopes)
        hits = gateway.search("search books in the library", limit=3)
        seen["found"] = [hit.name for hit in hits]
        tools = gateway.tools(["library.searchBooks"])
        seen["tool"] = tools[0]["function"]["name"]
        seen["called"] = gateway.call("library.searchBooks", QUERY)
        message = completion(seen["tool"], QUERY)
        seen["messages"] = gateway.run(message)
        with gateway.run_stream(message, format="openai-chat") as results:
            seen["streamed"] = [result.tool for result in results]
        seen["end"] = results.end.messages
        with gateway.stream("library.searchBooks", QUERY) as events:
            seen["events"] = [event.data for event in events]
        seen["summary"] = events.end["upstream_status"]
        cut = gateway.call_result("library.searchBooks", {"limit": 20}, CallOptions(max_bytes=600))
        assert cut.continuation is not None
        seen["rest"] = len(gateway.continuation(cut.continuation).items or [])
        seen["tools"] = sorted(tool.name for tool in gateway.list_tools(provider="library"))
        seen["toolsets"] = [toolset.name for toolset in gateway.toolsets()]
        key = CallOptions(idempotency_key="the-same")
        seen["replayed"] = [gateway.call_result("library.searchBooks", QUERY, key).replayed for _ in range(2)]
        seen["errors"] = [
            type(caught(gateway, name, arguments)).__name__
            for name, arguments in (("library.searchBooks", {"limit": "many"}), ("library.searchBook", {}))
        ]
        try:
            gateway.tools(["library.none"])
        except errors.UnknownTools as error:
            seen["unknown"] = error.names
    return seen


def caught(gateway: Gateway, name: str, arguments: dict[str, Any]) -> errors.GatewayError | None:
    """Return the error of a call."""
    try:
        gateway.call(name, arguments)
    except errors.GatewayError as error:
        return error
    return None


async def concurrent() -> dict[str, Any]:
    """Use the async client."""
    async with AsyncGateway() as gateway:
        called, messages = await asyncio.gather(
            gateway.call("library.searchBooks", QUERY),
            gateway.run(completion("library_searchBooks", QUERY)),
        )
        async with await gateway.stream("library.searchBooks", QUERY) as events:
            streamed = [event.data async for event in events]
        names = [tool.name async for tool in gateway.list_tools(provider="library")]
        return {"called": called, "messages": messages, "events": streamed, "tools": sorted(names)}


print(json.dumps({"blocking": blocking(), "concurrent": asyncio.run(concurrent())}))

"""Run by the interpreter that has utcp_gateway_client: uses a toolset, parts and approvals, and prints JSON.

The gateway is that of the environment. UTCP_GATEWAY_KEY is limited to the toolset `desk`, where
library.searchBooks is `find_books`, and library.getStock requires an approval; DECIDING_KEY may approve.
"""

import asyncio
import json
import os
import threading
from typing import Any

from utcp_gateway_client.gateway import (
    AsyncApprovalPending,
    AsyncGateway,
    CallOptions,
    Gateway,
    SyncApprovalPending,
    errors,
)

QUERY = {"q": "sea"}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "find_books", "arguments": json.dumps(QUERY)},
}
MESSAGE = {"role": "assistant", "content": None, "tool_calls": [CALL]}
STOCK = {"book_id": "bk-001"}


def blocking() -> dict[str, Any]:
    """Use the blocking client."""
    seen: dict[str, Any] = {}
    with Gateway(toolset="desk") as gateway:
        seen["found"] = [hit.name for hit in gateway.search("find a book")]
        seen["listed"] = sorted(tool.name for tool in gateway.list_tools())
        seen["exported"] = [tool["function"]["name"] for tool in gateway.tools(["find_books"])]
        seen["called"] = gateway.call("find_books", QUERY)
        seen["messages"] = [json.loads(message["content"]) for message in gateway.run(MESSAGE)]
        with gateway.stream("find_books", QUERY) as events:
            seen["events"] = [event.data for event in events]
        cut = gateway.call_result("find_books", {"limit": 20}, CallOptions(max_bytes=700))
        parts = list(gateway.read_more(cut, max_bytes=700))
        seen["parts"] = len(parts)
        seen["books"] = [
            book["id"] for items in (cut.value["items"], *(part.items for part in parts)) for book in items
        ]
        seen["uncut"] = len(list(gateway.read_more(gateway.call_result("find_books", QUERY))))
        seen["all"] = [book["id"] for book in gateway.call("find_books", {"limit": 20})["items"]]
        with Gateway() as without:
            seen["outside"] = outside(without)
        with Gateway(key=os.environ["DECIDING_KEY"]) as deciding:
            seen["approved"], seen["own"] = approved(gateway, deciding)
            seen["rejected"] = rejected(gateway, deciding)
    return seen


def outside(gateway: Gateway) -> list[str]:
    """Return what the key gets by the addresses that are not of its toolset."""
    try:
        gateway.call("library.searchBooks", QUERY)
    except errors.NotFound as error:
        return [error.slug, *(tool.name for tool in gateway.list_tools())]
    return ["called"]


def pending(gateway: Gateway) -> SyncApprovalPending:
    """Return the approval that a call waits for."""
    try:
        made = gateway.call_result("getStock", STOCK)
    except SyncApprovalPending as waiting:
        return waiting
    raise AssertionError(f"The call was made: {made}")


def approved(gateway: Gateway, deciding: Gateway) -> tuple[Any, str]:
    """Return what a call has returned that is approved while it is waited for."""
    waiting = pending(gateway)
    try:
        waiting.approve()
    except errors.PermissionDenied as error:
        own = error.slug
    (found,) = [each for each in deciding.approvals(state="pending") if str(each.id) == waiting.id]
    deciding_thread = threading.Thread(target=lambda: deciding.approve(str(found.id), comment="Yes."))
    deciding_thread.start()
    value = waiting.wait(timeout=30)
    deciding_thread.join()
    return value, own


def rejected(gateway: Gateway, deciding: Gateway) -> list[str]:
    """Return what a call raises that is rejected."""
    waiting = pending(gateway)
    deciding.reject(waiting.id, comment="Not today.")
    try:
        waiting.wait(timeout=30)
    except errors.ApprovalDenied as denied:
        return [denied.state, denied.comment]
    return []


async def concurrent() -> dict[str, Any]:
    """Use the async client."""
    seen: dict[str, Any] = {}
    async with AsyncGateway(toolset="desk") as gateway:
        seen["listed"] = sorted([tool.name async for tool in gateway.list_tools()])
        seen["called"] = await gateway.call("find_books", QUERY)
        cut = await gateway.call_result("find_books", {"limit": 20}, CallOptions(max_bytes=700))
        parts = [part async for part in gateway.read_more(cut, max_bytes=700)]
        seen["books"] = [
            book["id"] for items in (cut.value["items"], *(part.items for part in parts)) for book in items
        ]
        try:
            await gateway.call("getStock", STOCK)
        except AsyncApprovalPending as waiting:
            async with AsyncGateway(key=os.environ["DECIDING_KEY"]) as deciding:
                value, view = await asyncio.gather(
                    waiting.wait(timeout=30),
                    deciding.approve(waiting.id),
                )
            seen["approved"] = value
            seen["state"] = view.state
    return seen


print(json.dumps({"blocking": blocking(), "concurrent": asyncio.run(concurrent())}))

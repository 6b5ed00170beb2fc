"""A thousand idle subscriptions of one worker, with its default settings."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.harness.gateway import RunningGateway, serve
from tests.harness.mcp_requests import CAPABILITIES_KEY, MODERN, VERSION_KEY
from tests.harness.servers import Pair

STREAMS = 1_000
QUIET_SECONDS = 3
"""Longer than a stream waits for further changes before it compares the list."""
_BATCH = 50


class Subscription:
    """An open `subscriptions/listen` on a connection of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str, key: str) -> "Subscription":
        """Send the request, and return the subscription once it is acknowledged."""
        parts = urlsplit(url)
        meta = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}}
        params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params})
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nAccept: text/event-stream\r\nMCP-Protocol-Version: {MODERN}\r\n"
            f"Mcp-Method: subscriptions/listen\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(head.encode() + body.encode())
        found = cls(reader, writer)
        status = await reader.readuntil(b"\r\n\r\n")
        assert status.startswith(b"HTTP/1.1 200"), status
        assert "subscriptions/acknowledged" in await found.next_message()
        return found

    async def next_message(self) -> str:
        """Return the next message, as it came; comments before it are part of it."""
        return (await self._reader.readuntil(b"}\r\n\r\n")).decode()

    async def aclose(self) -> None:
        """Close the connection."""
        self._writer.close()


async def opened(stack: AsyncExitStack, gateway: RunningGateway, key: str, number: int) -> list[Subscription]:
    found: list[Subscription] = []
    while len(found) < number:
        count = min(_BATCH, number - len(found))
        found += await asyncio.gather(*(Subscription.open(gateway.url, key) for _ in range(count)))
    for one in found:
        stack.push_async_callback(one.aclose)
    return found


def add_provider(gateway: RunningGateway, name: str) -> None:
    template = {"call_template_type": "http", "http_method": "GET", "url": "http://127.0.0.1:9/x"}
    tool: dict[str, Any] = {"name": "tool", "inputs": {"type": "object"}, "tool_call_template": template}
    manual = {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": [tool]}
    with gateway.client() as admin:
        made = admin.post("/providers", json={"name": name, "source": {"manual": manual}})
        assert made.status_code == 201, made.text


def key_for(gateway: RunningGateway, provider: str) -> str:
    body = {
        "name": "limited", "scopes": ["tools:read"], "providers": [provider], "allow_unknown_providers": True
    }  # fmt: skip
    with gateway.client() as admin:
        made = admin.post("/keys", json=body)
        assert made.status_code == 201, made.text
        return str(made.json()["key"])


def test_each_of_a_thousand_idle_subscriptions_is_told_of_a_change(servers: Pair, tmp_path: Path) -> None:
    with serve(servers, tmp_path, SAMPLE="false") as gateway:
        limited = key_for(gateway, "other")
        asyncio.run(told_of_changes(gateway, limited))


async def told_of_changes(gateway: RunningGateway, limited: str) -> None:
    async with AsyncExitStack() as stack:
        seeing = await opened(stack, gateway, gateway.key, STREAMS - 1)
        (other,) = await opened(stack, gateway, limited, 1)
        await asyncio.to_thread(add_provider, gateway, "new")
        told = await asyncio.gather(*(one.next_message() for one in seeing))
        assert all("notifications/tools/list_changed" in message for message in told)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(QUIET_SECONDS):
                await other.next_message()
        # The limited key is told of its own tools, and the gateway serves other requests meanwhile.
        await asyncio.to_thread(add_provider, gateway, "other")
        assert "notifications/tools/list_changed" in await other.next_message()

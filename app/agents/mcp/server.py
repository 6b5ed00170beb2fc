"""The MCP server of a worker: what its requests share."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

from app.agents.mcp.jsonrpc import SERVER_INFO_KEY
from app.agents.mcp.origin_check import OriginCheck
from app.agents.mcp.served_lists import ServedLists
from app.agents.mcp.subscriptions import ListSubscriptions
from app.agents.mcp.tool_lists import ToolLists
from app.catalog.feed import ChangeNotice
from app.providers.registration.first_imports import FirstImports
from app.services import Services

SERVER_INFO: Final[dict[str, Any]] = {"name": "utcp-gateway", "version": version("utcp-gateway")}
MODERN_META: Final[dict[str, Any]] = {SERVER_INFO_KEY: SERVER_INFO}


@dataclass(frozen=True, slots=True)
class McpServer:
    """The MCP server of a worker. `origins` admits requests, `lists` renders tools, `subscriptions` has the
    open streams of changes, `served` knows which lists clients may have, `first_imports` which providers are
    being imported. A result that takes longer than `slow_seconds` is sent as an event, after comments that
    keep the connection open.
    """

    origins: OriginCheck
    lists: ToolLists
    subscriptions: ListSubscriptions
    served: ServedLists
    first_imports: FirstImports
    slow_seconds: float = 10.0

    async def on_changes(self, changes: Sequence[ChangeNotice]) -> None:
        """Tell the open streams; a subscriber of the change feed."""
        self.first_imports.on_changes(changes)
        self.subscriptions.on_changes(changes)


def open_server(services: Services) -> McpServer:
    """Return the MCP server of these services, which follows the changes that the feed announces."""
    settings = services.settings
    server = McpServer(
        OriginCheck(settings),
        ToolLists(page_size=settings.mcp_page_size),
        ListSubscriptions(
            max_streams=settings.mcp_max_streams, max_streams_per_key=settings.mcp_max_streams_per_key
        ),
        ServedLists(services.redis_client, services.vault),
        FirstImports(services.database),
    )
    services.feed.subscribe(server.on_changes)
    return server

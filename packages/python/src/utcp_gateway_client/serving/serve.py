"""One function for both ways to serve tools."""

from collections.abc import Callable, Iterable
from typing import Any, overload

from utcp_gateway_client.serving.app import ToolsApp
from utcp_gateway_client.serving.executor import Executor
from utcp_gateway_client.tools import AnyTool, ToolCollection

Tools = ToolCollection | Iterable[AnyTool | Callable[..., Any]]


@overload
def serve(
    tools: Tools, *, token: str | None = None, base_url: str | None = None, name: str = "tools"
) -> ToolsApp: ...
@overload
def serve(
    tools: Tools, *, gateway: str, key: str | None = None, name: str = "python", max_commands: int = 8
) -> Executor: ...
def serve(tools: Tools, *, gateway: str | None = None, **options: Any) -> ToolsApp | Executor:
    """Return the tools as an ASGI application, or with `gateway` as an executor of the gateway at this URL.

    The application is served by any ASGI server, or mounted (ToolsApp); the executor serves with `run()`,
    `await run_async()` or `async with` (Executor). `tools` is a collection, or functions and tools for a new
    one.
    """
    collection = tools if isinstance(tools, ToolCollection) else ToolCollection(tools)
    if gateway is None:
        return ToolsApp(collection, **options)
    return Executor(collection, gateway=gateway, **options)

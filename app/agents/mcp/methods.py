"""The methods of MCP, in both eras."""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import orjson

from app.access import authorise
from app.agents.mcp.calling import call_tool
from app.agents.mcp.exchange import Exchange, Response
from app.agents.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEGACY,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    SERVED,
    RpcError,
)
from app.agents.mcp.served_lists import ListAddress
from app.agents.mcp.server import MODERN_META, SERVER_INFO
from app.agents.mcp.subscriptions import ListenResponse, SubscribedList
from app.core.errors import scopes_missing
from app.toolsets import ToolCollection

TTL_MS: Final = 60_000
"""For how long clients may cache lists; a subscription tells them earlier. While a provider that the key may
see is imported for the first time, they may not cache the list of tools."""
_CACHE: Final[dict[str, Any]] = {"ttlMs": TTL_MS, "cacheScope": "private"}
_LEGACY_CAPABILITIES: Final = {"tools": {"listChanged": False}, "resources": {}, "prompts": {}}
_MODERN_CAPABILITIES: Final = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
_EVENTS: Final = (b"text/event-stream", b"text/*", b"*/*")

_REVISION: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Method = Callable[[Exchange], Awaitable[Response]]


def dispatch(exchange: Exchange) -> Awaitable[Response]:
    """Return the response to a request; raise RpcError, and, when awaited, Forbidden where the key lacks a
    scope.
    """
    handler = (_MODERN if exchange.rpc.is_modern else _LEGACY).get(exchange.rpc.method)
    if handler is None:
        raise RpcError(METHOD_NOT_FOUND, "There is no such method in this protocol version.")
    return handler(exchange)


def describe_server(exchange: Exchange) -> str:
    """Return what every model reads of the server without a call."""
    toolset = exchange.collection.toolset
    of = "a registry of tools over HTTP and other APIs" if toolset is None else f"the toolset {toolset}"
    return (
        f"This is {of}, served by utcp-gateway. tools/list has the tools themselves, or, for a large"
        " catalogue, tools that find others: search with find_tools by what you want to do, read the inputs"
        " with describe_tools where the signature is not enough, then call with call_read_tool (tools that"
        " only read) or call_tool. Every tool can also be called directly by its name. Results of calls that"
        " fail say what to do next."
    )


async def _answer_initialize(exchange: Exchange) -> Response:
    return exchange.respond(
        {
            "protocolVersion": _negotiate(exchange.rpc.params.get("protocolVersion")),
            "capabilities": _LEGACY_CAPABILITIES,
            "serverInfo": SERVER_INFO,
            "instructions": describe_server(exchange),
        }
    )


def _negotiate(requested: Any) -> str:
    """Return the latest revision that is not later than the requested one, which its client knows, too; the
    latest of all where there is none.
    """
    if isinstance(requested, str) and _REVISION.fullmatch(requested):
        return next((one for one in LEGACY if one <= requested), LEGACY[0])
    return LEGACY[0]


async def _discover(exchange: Exchange) -> Response:
    return exchange.respond(
        {
            "supportedVersions": SERVED,
            "capabilities": _MODERN_CAPABILITIES,
            "instructions": describe_server(exchange),
            **_CACHE,
        }
    )


async def _answer_ping(exchange: Exchange) -> Response:
    return exchange.respond({})


async def _list_tools(exchange: Exchange) -> Response:
    _require_read(exchange)
    cursor = _read_cursor(exchange)
    page = await exchange.server.lists.page(exchange.collection, exchange.mode, cursor)
    result: dict[str, Any] = {"tools": orjson.Fragment(page.tools)}
    if page.next_cursor is not None:
        result["nextCursor"] = page.next_cursor
    if exchange.rpc.is_modern:
        if cursor is None:
            await exchange.server.served.note(_list_address(exchange), page.digest)
        principal = exchange.collection.principal
        is_growing = await exchange.server.first_imports.any_for(principal.across_toolsets())
        result |= _CACHE | ({"ttlMs": 0} if is_growing else {})
    return exchange.respond(result)


def _create_empty_list(member: str) -> Method:
    async def list_nothing(exchange: Exchange) -> Response:
        if _read_cursor(exchange) is not None:
            raise RpcError(INVALID_PARAMS, "The cursor is unknown.")
        empty: dict[str, Any] = {member: []}
        return exchange.respond(empty | _CACHE if exchange.rpc.is_modern else empty)

    return list_nothing


async def _read_resource(exchange: Exchange) -> Response:
    uri = exchange.rpc.params.get("uri")
    code = INVALID_PARAMS if exchange.rpc.is_modern else RESOURCE_NOT_FOUND
    data = {"uri": uri} if isinstance(uri, str) else None
    raise RpcError(code, "There is no such resource.", data=data)


async def _get_prompt(_exchange: Exchange) -> Response:
    raise RpcError(INVALID_PARAMS, "There is no such prompt.")


async def _listen(exchange: Exchange) -> Response:
    _require_read(exchange)
    accept = exchange.head.get(b"accept")
    if accept is not None and not any(kind in accept.lower() for kind in _EVENTS):
        raise RpcError(INVALID_REQUEST, "Accept text/event-stream.", status=406)
    wanted = exchange.rpc.params.get("notifications")
    if not isinstance(wanted, dict):
        raise RpcError(INVALID_PARAMS, '"params.notifications" is an object.')
    return ListenResponse(
        exchange.rpc.id,
        exchange.server.subscriptions,
        exchange.services.streams,
        key_id=exchange.collection.principal.key_id,
        wants_tools=wanted.get("toolsListChanged") is True,
        tools=SubscribedList(
            check=partial(_find_current_collection, exchange),
            digest=partial(_read_current_digest, exchange),
            has_other=partial(exchange.server.served.has_other, _list_address(exchange)),
        ),
        result_meta=MODERN_META,
    )


async def _find_current_collection(exchange: Exchange) -> ToolCollection:
    """Return the tools of the request's address for the key as it is now; raise what authorisation raises,
    and NotFound where the key may not use the toolset any more, or it is gone.
    """
    principal = await authorise(exchange.request, "tools:read")
    return await exchange.services.collections.at(exchange.toolset, principal)


def _list_address(exchange: Exchange) -> ListAddress:
    return ListAddress(exchange.collection.principal, exchange.toolset, exchange.mode)


async def _read_current_digest(exchange: Exchange) -> str:
    """Return the digest of the list for the key as it is now; raise as `_find_current_collection`."""
    return await exchange.server.lists.digest(await _find_current_collection(exchange), exchange.mode)


def _require_read(exchange: Exchange) -> None:
    if not exchange.collection.principal.has_scope("tools:read"):
        raise scopes_missing("The API key lacks the scope `tools:read`.", ["tools:read"])


def _read_cursor(exchange: Exchange) -> str | None:
    cursor = exchange.rpc.params.get("cursor")
    if cursor is None or isinstance(cursor, str):
        return cursor
    raise RpcError(INVALID_PARAMS, '"params.cursor" is a string.')


_SHARED: Final[Mapping[str, Method]] = {
    "tools/list": _list_tools,
    "tools/call": call_tool,
    "resources/list": _create_empty_list("resources"),
    "resources/templates/list": _create_empty_list("resourceTemplates"),
    "prompts/list": _create_empty_list("prompts"),
    "prompts/get": _get_prompt,
    "resources/read": _read_resource,
}
_MODERN: Final[Mapping[str, Method]] = {
    **_SHARED,
    "server/discover": _discover,
    "subscriptions/listen": _listen,
}
_LEGACY: Final[Mapping[str, Method]] = {**_SHARED, "initialize": _answer_initialize, "ping": _answer_ping}

"""Further requests that belong to one call: all pages of a list, and polling until an operation is done.

Both are options of a tool that an operator sets. They are sent by the tool's own adapter, to the origin of
the tool alone, with its credentials, within the deadline and the permit of the call. What was read of a list
is merged to one JSON response, whose header `X-Pages` says how many pages it has, and `more` where there are
others.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from app.calls.context import CallContext
from app.catalog.response_options import AllPages
from app.core import exact_json
from app.core.errors import GatewayError, UpstreamError
from app.core.media_types import is_json, parse_essence
from app.protocols.base import BODY_METADATA_HEADERS, Call, FollowsLinks, Result

PAGES_HEADER: Final = "X-Pages"
_MAX_BYTES: Final = 16 << 20
_INLINE_BYTES: Final = 64 << 10
"""Bytes of a page up to which it is parsed in the event loop; larger ones are parsed in a thread."""
_LINK: Final = re.compile(r"<([^<>]*)>((?:\s*;\s*[^\s=;,]+\s*(?:=\s*(?:\"[^\"]*\"|[^\s\";,]*))?)*)")
_REL_NEXT: Final = re.compile(
    r";\s*rel\s*=\s*(?:\"(?:[^\"]*\s)?next(?:\s[^\"]*)?\"|next\s*(?:;|$))", re.IGNORECASE
)
_MAX_HEADER: Final = 8_192
_MIN_PAUSE: Final = 0.05
_FIRST_PAUSE: Final = 1.0
_MAX_PAUSE: Final = 10.0
_MARGIN: Final = 0.25
"""Seconds before the deadline at which polling ends, so that the client still gets the last response."""

Send = Callable[[Call[Any], str | None], Awaitable[Result]]
"""Sends a call, or a GET of a URL in place of it, and returns the result with its secrets masked."""


async def follow_result(result: Result, call: Call[Any], context: CallContext, send: Send) -> Result:
    """Return the result after polling, and with all pages, as the options of the tool say.

    Raise what an adapter raises; an error of a page after the first ends the list there.
    """
    options = context.plan.response_options
    if options is None or call.stream_deadline is not None:
        return result
    if options.poll and result.status == 202:
        try:
            result = await _poll(result, call, context, send)
        except UpstreamError as error:
            context.report_failure(error)
            raise
    if options.all_pages is not None and _is_json(result):
        result = await _Pages(call, context, send, options.all_pages).read_all(result)
    return result


async def _poll(result: Result, call: Call[Any], context: CallContext, send: Send) -> Result:
    """Return the first response that is not 202, or the last one before the deadline."""
    loop = asyncio.get_running_loop()
    pause, last = _FIRST_PAUSE, None
    while result.status == 202:
        link = result.upstream_headers.get("Location") or result.upstream_headers.get("Operation-Location")
        url = _resolve_target(link, call, context, result.url or last) or last
        if url is None:
            return result
        stated = str(result.upstream_headers.get("Retry-After", ""))
        seconds = max(float(stated), _MIN_PAUSE) if stated.isdecimal() and len(stated) < 6 else pause
        if loop.time() + seconds > call.deadline - _MARGIN:
            return result
        pause = min(pause * 1.5, _MAX_PAUSE)
        await _read_whole(result)
        await asyncio.sleep(seconds)
        result, last = await send(call, url), url
    return result


class _Pages:
    """Reads the pages of one list."""

    def __init__(self, call: Call[Any], context: CallContext, send: Send, option: AllPages) -> None:
        self._call = call
        self._context = context
        self._send = send
        self._option = option
        self._url: str | None = None
        self._base: str | None = None
        """The URL of the last page, where it is not that of the call."""

    async def read_all(self, first: Result) -> Result:
        """Return one result with the items of all pages; the first page where it is not as described."""
        option = self._option
        limit = min(_MAX_BYTES, self._call.limits.response_bytes)
        if not await first.read_up_to(limit):
            # It is passed on as it comes, and not held in memory.
            first.headers.append((PAGES_HEADER, "1;more"))
            return first
        body = first.body or b""
        page = value = await _parse_body(body)
        items = _get_member(value, option.items)
        if not isinstance(items, list):
            return first
        merged, bodies, size, count = list(items), {body}, len(body), 1
        self._base = first.url
        headers: Mapping[str, str] = first.upstream_headers
        while (
            (has_more := self._advance(page, items, headers)) and count < option.max_pages and size <= limit
        ):
            try:
                response = await self._send(self._call, self._url)
                body = await _read_whole(response)
            except GatewayError:
                break
            page, headers = await _parse_body(body), response.upstream_headers
            self._base = response.url or self._url
            items = _get_member(page, option.items)
            if not isinstance(items, list) or body in bodies:
                has_more = not isinstance(items, list)
                break
            bodies.add(body)
            merged += items
            size += len(body)
            count += 1 if items else 0
        whole = _replace_list(value, option.items, merged)
        try:
            first.body = (
                exact_json.dumps(whole)
                if size <= _INLINE_BYTES
                else await asyncio.to_thread(exact_json.dumps, whole)
            )
        except orjson.JSONEncodeError:
            # Nested more deeply than can be written.
            return first
        dropped = BODY_METADATA_HEADERS | {"link"}
        first.headers = [pair for pair in first.headers if pair[0].lower() not in dropped]
        first.headers.append((PAGES_HEADER, f"{count};more" if has_more else str(count)))
        return first

    def _advance(self, page: Any, items: Any, headers: Mapping[str, str]) -> bool:
        """Go to the next page; return False where this one is the last."""
        option, call = self._option, self._call
        if option.by in ("link", "next"):
            link = (
                _find_next_link(headers.get("Link", ""))
                if option.by == "link"
                else _get_member(page, option.pointer)
            )
            self._url = _resolve_target(link, call, self._context, self._base)
            return self._url is not None
        value: Any
        if option.by == "cursor":
            value = _get_member(page, option.pointer)
            if value in (None, "", False) or isinstance(value, dict | list):
                return False
        else:
            begin = call.arguments.get(option.argument, 1 if option.by == "page" else 0)
            if not items or type(begin) is not int:
                return False
            value = begin + (1 if option.by == "page" else len(items))
        self._call = replace(call, arguments={**call.arguments, option.argument: value})
        return True


def _resolve_target(link: Any, call: Call[Any], context: CallContext, base: str | None) -> str | None:
    """Return the URL that a response points to, None where it is not at the origin of the tool."""
    adapter = context.plan.adapter
    if not isinstance(link, str) or not link or not isinstance(adapter, FollowsLinks):
        return None
    return adapter.resolve_link(call, link, base)


def _find_next_link(header: str) -> str | None:
    """Return the target of rel=next in a header Link (RFC 8288)."""
    targets = (match[1] for match in _LINK.finditer(header[:_MAX_HEADER]) if _REL_NEXT.search(match[2]))
    return next(targets, None)


async def _read_whole(result: Result) -> bytes:
    try:
        return await result.read()
    except BaseException:
        await result.aclose()
        raise


def _is_json(result: Result) -> bool:
    media = parse_essence(result.media_type)
    return is_json(media) and not result.is_content_coded and result.status != 304


async def _parse_body(body: bytes) -> Any:
    """Return the value of JSON with all digits of its numbers, None for what is not JSON."""
    try:
        if len(body) > _INLINE_BYTES:
            return await asyncio.to_thread(exact_json.load_exactly, body)
        return exact_json.load_exactly(body)
    except (ValueError, RecursionError):
        return None


def _get_member(value: Any, pointer: str) -> Any:
    """Return the member at a JSON pointer, None where there is none."""
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _replace_list(value: Any, pointer: str, items: list[Any]) -> Any:
    """Return a value with another list at a JSON pointer."""
    if not pointer:
        return items
    token, slash, rest = pointer[1:].partition("/")
    key = token.replace("~1", "/").replace("~0", "~")
    return {**value, key: _replace_list(value[key], slash + rest, items)}

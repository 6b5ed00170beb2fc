"""A tool's answer -> the response: the upstream's own bytes, or JSON where the caller takes nothing else."""

import asyncio
import base64
import codecs
import contextlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import orjson
from starlette.types import Receive, Scope, Send

from app.errors import ResponseTooLarge
from app.outbound.charsets import charset_of, decoded
from app.protocols.base import Result
from app.tools.call_records import Attempt

_MOST_WRAPPED: Final = 16 << 20
"""Bytes of text or binary that are turned into JSON; a longer answer must be taken as it is."""

_MADE_SURE: Final = 64 << 10
_UTF8: Final = (None, "utf-8", "utf8", "us-ascii", "ascii")
_QUICK: Final = 256 << 10
_JSON: Final = b"application/json"
_TEXTUAL: Final = ("xml", "yaml", "javascript", "x-www-form-urlencoded", "graphql", "ndjson", "jsonl", "toml")
# The bytes are an upstream's: a browser must neither guess their type nor run them with our origin.
_GUARDS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
)

Headers = list[tuple[bytes, bytes]]


class Answer:
    """An ASGI response of one body that is here already."""

    __slots__ = ("body", "headers", "status_code")

    def __init__(self, body: bytes, headers: Headers, *, status_code: int = 200) -> None:
        self.body = body
        self.headers = headers
        self.status_code = status_code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI.
        """Sends it."""
        headers = [*self.headers, (b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class Streamed:
    """An ASGI response that passes an upstream's answer on as it arrives, and lets go when the caller
    leaves. `beginning` is what was read of it already.
    """

    __slots__ = ("attempt", "beginning", "headers", "result")
    status_code = 200

    def __init__(self, result: Result, headers: Headers, attempt: Attempt, *, beginning: bytes = b"") -> None:
        self.beginning = beginning
        self.result = result
        self.headers = headers
        self.attempt = attempt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI.
        """Sends it; raises what the stream raises, so that the server cuts the connection."""
        sent = 0
        watcher = asyncio.create_task(cancel_when_gone(receive, asyncio.current_task()))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.headers})
            if self.beginning:
                await send({"type": "http.response.body", "body": self.beginning, "more_body": True})
                sent = len(self.beginning)
            async for piece in self.result.iterate():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                sent += len(piece)
            await send({"type": "http.response.body", "body": b""})
        except BaseException as error:
            self.attempt.fail(error, response_bytes=sent, upstream_status=self.result.status)
            if not (isinstance(error, asyncio.CancelledError) and gone(watcher)):
                raise
        else:
            self.attempt.settle(upstream_status=self.result.status, response_bytes=sent)
        finally:
            watcher.cancel()
            await self.result.aclose()


async def cancel_when_gone(receive: Receive, task: "asyncio.Task[Any] | None") -> bool:
    """Waits until the caller has left, then cancels the task that works for it; gives True."""
    while (await receive())["type"] != "http.disconnect":
        pass
    if task is not None:
        task.cancel()
    return True


def gone(watcher: "asyncio.Task[bool]") -> bool:
    """Whether a cancellation came from this watcher; takes it back if so."""
    if not watcher.done() or watcher.cancelled() or watcher.exception() is not None:
        return False
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
    return True


async def respond(result: Result, *, accept: str, attempt: Attempt) -> Answer | Streamed:
    """The response to a call that succeeded.

    JSON of at most 64 KiB is made sure to be JSON for a caller that takes nothing else; of more, the
    beginning is waited for and the rest is passed on as it arrives, on the upstream's word that it is JSON.

    Without a body on the way, the attempt is settled here. Raises ResponseTooLarge for text or binary of more
    than 16 MiB that would have to be wrapped into JSON, and what the stream raises.
    """
    headers = _headers(result, attempt)
    media = result.media_type.partition(";")[0].strip().lower()
    if _only_json(accept, media):
        headers.append((b"content-type", _JSON))
        body, complete = b"", False
        if is_json(media) and charset_of(result.media_type) in _UTF8:
            body, complete = await result.begin(_MADE_SURE)
            if not complete:
                return Streamed(result, headers, attempt, beginning=body.removeprefix(codecs.BOM_UTF8))
        if not complete:
            body = await _collected(result)
        body = await _converted(body, media, result.media_type)
    elif result.stream is not None:
        return Streamed(result, [*headers, *_content_type(result.media_type)], attempt)
    else:
        body = result.body or b""
        if body:
            headers += _content_type(result.media_type)
    attempt.settle(upstream_status=result.status, response_bytes=len(body))
    return Answer(body, headers)


def is_json(media: str) -> bool:
    """Whether a media type without parameters, in lower case, is JSON (RFC 6839 section 3.1)."""
    return media == "application/json" or media.endswith("+json") or media == "text/json"


@lru_cache(maxsize=256)
def _ranges(accept: str) -> frozenset[str]:
    """The media ranges of an Accept header that have a weight (RFC 9110 section 12.5.1)."""
    found = []
    for item in accept.lower().split(","):
        media, *parameters = (part.strip() for part in item.split(";"))
        refused = any(part.startswith("q=") and not part[2:].strip("0.") for part in parameters)
        if media and not refused:
            found.append(media)
    return frozenset(found)


def _only_json(accept: str, media: str) -> bool:
    """Whether the caller names application/json, and neither everything nor what the upstream sent."""
    ranges = _ranges(accept)
    if "application/json" not in ranges or "*/*" in ranges:
        return False
    # An answer that says it is JSON goes the way that makes sure of it.
    return media == "application/json" or ranges.isdisjoint((media, f"{media.partition('/')[0]}/*"))


def _headers(result: Result, attempt: Attempt) -> Headers:
    total = attempt.seconds() * 1000
    upstream = attempt.upstream_seconds * 1000
    timing = b"gateway;dur=%.2f, upstream;dur=%.2f" % (max(total - upstream, 0.0), upstream)
    headers: Headers = [
        (b"x-call-id", attempt.call_id.encode()),
        (b"x-upstream-status", b"%d" % result.status),
        (b"server-timing", timing),
        *_GUARDS,
    ]
    headers += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in result.headers]
    return headers


def _content_type(media_type: str) -> Sequence[tuple[bytes, bytes]]:
    if not media_type:
        return ()
    usable = media_type.isascii() and media_type.isprintable()
    return ((b"content-type", media_type.encode() if usable else b"application/octet-stream"),)


async def _collected(result: Result) -> bytes:
    if result.stream is None:
        return result.body or b""
    pieces: list[bytes] = []
    size = 0
    async with contextlib.aclosing(result.iterate()) as stream:  # type: ignore[type-var]
        async for piece in stream:
            size += len(piece)
            if size > _MOST_WRAPPED:
                await result.aclose()
                raise ResponseTooLarge(
                    f"The answer has more than {_MOST_WRAPPED} bytes and is not JSON: "
                    "ask for it with `Accept: */*`, then it is passed on as it is."
                )
            pieces.append(piece)
    return b"".join(pieces)


async def _converted(body: bytes, media: str, media_type: str) -> bytes:
    """`_as_json`, beside the loop where it takes more than about a millisecond."""
    if len(body) > _QUICK:
        return await asyncio.to_thread(_as_json, body, media, media_type)
    return _as_json(body, media, media_type)


def _as_json(body: bytes, media: str, media_type: str) -> bytes:
    """JSON as it is, nothing as null, text as a string, anything else as an object with base64."""
    if not body:
        return b"null"
    if is_json(media):
        with contextlib.suppress(orjson.JSONDecodeError):
            orjson.loads(body)
            return body
    text = _text(body, media, media_type)
    if text is None:
        coded = base64.b64encode(body).decode()
        return orjson.dumps({"media_type": media or "application/octet-stream", "base64": coded})
    if is_json(media):
        # Another encoding than UTF-8, or a byte order mark.
        with contextlib.suppress(orjson.JSONDecodeError):
            return orjson.dumps(orjson.loads(text.removeprefix("\ufeff")))
    return orjson.dumps(text)


def _text(body: bytes, media: str, media_type: str) -> str | None:
    """The body as text where its type is one of text, or unknown and the bytes are UTF-8; else None."""
    textual = media.startswith("text/") or is_json(media) or any(word in media for word in _TEXTUAL)
    if media and not textual:
        return None
    try:
        return decoded(body, charset_of(media_type) or "utf-8")
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace") if textual and b"\x00" not in body else None

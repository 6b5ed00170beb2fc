"""A tool's answer -> the response: the upstream's own bytes, or JSON where the caller takes nothing else."""

import asyncio
import base64
import codecs
import contextlib
from collections.abc import Sequence
from typing import Final

import orjson
from starlette.types import Receive, Scope, Send

from app.call_api.content_negotiation import Accepted
from app.calls.connection import Headers, cancel_when_gone, gone
from app.calls.event_formats import form_of
from app.calls.event_stream import EventStream, Streams
from app.calls.recording import Attempt
from app.errors import ResponseTooLarge
from app.outbound.charsets import charset_of, decoded
from app.outbound.framing import is_json, is_textual
from app.protocols.base import Result

_MOST_WRAPPED: Final = 16 << 20
"""Bytes of text or binary that are turned into JSON; a longer answer must be taken as it is."""

_MADE_SURE: Final = 64 << 10
_UTF8: Final = (None, "utf-8", "utf8", "us-ascii", "ascii")
_QUICK: Final = 256 << 10
_JSON: Final = b"application/json"
# The bytes are an upstream's: a browser must neither guess their type nor run them with our origin.
_GUARDS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
)
# What nginx obeys: events must not wait in a proxy until there are enough of them.
_UNBUFFERED: Final = ((b"x-accel-buffering", b"no"),)


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

    __slots__ = ("attempt", "beginning", "headers", "result", "streams")
    status_code = 200

    def __init__(
        self, result: Result, headers: Headers, attempt: Attempt, *, streams: Streams, beginning: bytes = b""
    ) -> None:
        self.beginning = beginning
        self.result = result
        self.headers = headers
        self.attempt = attempt
        self.streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI.
        """Sends it; raises what the stream raises, so that the server cuts the connection."""
        attempt = self.attempt
        watcher = asyncio.create_task(cancel_when_gone(receive, asyncio.current_task()))
        writer = self.streams.writer(send)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.headers})
            if self.beginning:
                if attempt.bodies is not None:
                    attempt.bodies.result.add(self.beginning)
                await writer.write(self.beginning)
                self.beginning = b""
            async for piece in self.result.iterate():
                if attempt.bodies is not None:
                    attempt.bodies.result.add(piece)
                await writer.write(piece)
            if attempt.durable:
                await attempt.conclude(upstream_status=self.result.status, response_bytes=writer.sent)
            await writer.write(b"", more=False)
        except BaseException as caught:  # noqa: BLE001 - it is recorded, and raised again.
            error = writer.at_fault(caught, seconds=attempt.seconds())
            attempt.fail(error, response_bytes=writer.sent, upstream_status=self.result.status)
            if not (isinstance(error, asyncio.CancelledError) and gone(watcher)):
                raise error from None
        else:
            attempt.settle(upstream_status=self.result.status, response_bytes=writer.sent)
        finally:
            watcher.cancel()
            await self.result.aclose()


async def respond(
    result: Result, *, accept: Accepted, attempt: Attempt, streams: Streams
) -> Answer | Streamed | EventStream:
    """The response to a call that succeeded.

    JSON of at most 64 KiB is made sure to be JSON for a caller that takes nothing else; of more, the
    beginning is waited for and the rest is passed on as it arrives, on the upstream's word that it is JSON.

    Without a body on the way, the attempt is settled here. Raises ResponseTooLarge for text or binary of more
    than 16 MiB that would have to be wrapped into JSON, and what the stream raises.
    """
    if attempt.bodies is not None:
        attempt.bodies.result.media_type = result.media_type
    media = result.media_type.partition(";")[0].strip().lower()
    # Of a protocol that has only events, there is no other answer.
    only_events = result.events is not None and result.stream is None and result.body is None
    if accept.events and (only_events or accept.as_events(media)):
        form = form_of(accept.events)
        headers = _headers(result, attempt)
        headers += [(b"content-type", form.media_type.encode()), *_UNBUFFERED]
        return EventStream(result, headers, attempt, form=form, streams=streams)
    if accept.only_json("application/octet-stream") and result.coded:
        media = "application/octet-stream"
        result.headers = [pair for pair in result.headers if pair[0] != "Content-Encoding"]
    if accept.only_json(media):
        body, complete = b"", False
        if is_json(media) and charset_of(result.media_type) in _UTF8:
            body, complete = await result.begin(_MADE_SURE)
            if not complete:
                beginning = body.removeprefix(codecs.BOM_UTF8)
                # Read first: what was masked in the beginning stands in the headers.
                headers = [*_headers(result, attempt), (b"content-type", _JSON)]
                return Streamed(result, headers, attempt, streams=streams, beginning=beginning)
        if not complete:
            body = await _collected(result)
        body = await _converted(body, media, result.media_type)
        headers = [*_headers(result, attempt), (b"content-type", _JSON)]
    elif result.stream is not None:
        headers = [*_headers(result, attempt), *_content_type(result.media_type)]
        return Streamed(result, headers, attempt, streams=streams)
    else:
        body = result.body or b""
        headers = _headers(result, attempt)
        if body:
            headers += _content_type(result.media_type)
    if attempt.bodies is not None:
        attempt.bodies.result.add(body)
    attempt.settle(upstream_status=result.status, response_bytes=len(body))
    if attempt.stored is not None:
        await attempt.kept()
    return Answer(body, headers)


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
    textual = is_textual(media)
    if media and not textual:
        return None
    try:
        return decoded(body, charset_of(media_type) or "utf-8")
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace") if textual and b"\x00" not in body else None

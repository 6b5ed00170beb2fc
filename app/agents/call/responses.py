"""Conversion of results to HTTP responses: the upstream's bytes, or JSON where only that is accepted."""

import asyncio
import base64
import codecs
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Final
from urllib.parse import quote

import orjson
from starlette.types import Receive, Scope, Send

from app.agents.call.content_negotiation import AcceptedTypes
from app.agents.call.event_stream import EventStreamResponse
from app.agents.http_messages import BytesResponse
from app.api.streams.connection import Headers, ResponseWriter, until_disconnected
from app.api.streams.event_formats import event_format
from app.calls import CallContext, ClientDisconnected
from app.calls.disconnect import DisconnectWatch
from app.calls.response.checks import FRAGMENT_SAFE
from app.calls.response.streams import StreamRegistry
from app.core import exact_json
from app.core.errors import ResponseTooLarge
from app.core.media_types import is_json, is_textual, parse_essence
from app.formats.json_schema.repair import Repair
from app.outbound.body_text import body_text
from app.outbound.charsets import charset_of
from app.protocols.base import Result
from app.security.lasting_rights import RightCheck

_MAX_CONVERTED: Final = 16 << 20
"""Bytes of text or binary that are converted into JSON; a longer response is sent unchanged or rejected."""

_MAX_VERIFIED: Final = 64 << 10
_UTF8: Final = (None, "utf-8", "utf8", "us-ascii", "ascii")
_INLINE_BYTES: Final = 256 << 10
_JSON: Final = b"application/json"
# The bytes are an upstream's: a browser must not run scripts in our origin (nor sniff: `app.cli.server`).
_BROWSER_GUARDS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
)
# For nginx: events must not be buffered in a proxy.
_UNBUFFERED: Final = ((b"x-accel-buffering", b"no"),)
_MAX_REPAIRS: Final = 20
_REPLAYED: Final = (b"idempotency-replayed", b"true")


class StreamedResponse:
    """An ASGI response that passes an upstream's body on as it arrives, and closes it when the client leaves.

    `beginning` are the bytes of the body that were read before.
    """

    __slots__ = ("_beginning", "_outcome", "_result", "_streams", "headers")
    status_code = 200

    def __init__(
        self,
        result: Result,
        headers: Headers,
        outcome: CallContext,
        *,
        streams: StreamRegistry,
        beginning: bytes = b"",
    ) -> None:
        self._result = result
        self.headers = headers
        self._outcome = outcome
        self._streams = streams
        self._beginning = beginning

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI.
        """Send the response; raise what its stream raises, so that the server closes the connection."""
        outcome = self._outcome
        result = self._result
        clock = self._streams.clock
        writer = ResponseWriter(send, clock=clock, stall=self._streams.stall)
        try:
            with DisconnectWatch(partial(until_disconnected, receive), clock, after=0):
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": self.headers}
                )
                if self._beginning:
                    beginning, self._beginning = self._beginning, b""
                    outcome.add_result(beginning)
                    await writer.write(beginning)
                async for piece in result.iterate():
                    outcome.add_result(piece)
                    await writer.write(piece)
                if outcome.durable:
                    await outcome.conclude(upstream_status=result.status, response_bytes=writer.sent)
                await writer.write(b"", more=False)
        except BaseException as caught:  # noqa: BLE001 - it is recorded, and raised again.
            error = writer.attribute(caught, seconds=outcome.seconds())
            await outcome.conclude_failed(error, response_bytes=writer.sent, upstream_status=result.status)
            if not isinstance(error, ClientDisconnected):
                raise error from None
        else:
            outcome.complete(upstream_status=result.status, response_bytes=writer.sent)
        finally:
            await result.aclose()


async def respond(
    result: Result,
    *,
    accept: AcceptedTypes,
    outcome: CallContext,
    streams: StreamRegistry,
    check: RightCheck,
) -> BytesResponse | StreamedResponse | EventStreamResponse:
    """Return the response to a call that succeeded with `result`. Events end once `check` denies.

    For a client that accepts only JSON, a body of at most 64 KiB is verified to be JSON; a longer one is
    passed on as it arrives, unverified.

    A stream that is read to its end here is recorded here. Raises ResponseTooLarge for text or binary of more
    than 16 MiB that would have to be converted into JSON, and what the stream raises.
    """
    media = parse_essence(result.media_type)
    if accept.events and result.events is not None:
        # Of a protocol that has only events, there is no other response.
        only_events = result.stream is None and result.body is None
        if only_events or accept.as_events(media):
            form = event_format(accept.events, only_values=accept.only_values)
            headers = [
                *result_headers(result, outcome), (b"content-type", form.media_type.encode()), *_UNBUFFERED,
            ]  # fmt: skip
            return EventStreamResponse(
                result, headers, outcome, event_format=form, streams=streams, check=check
            )
    if accept.only_json("application/octet-stream") and result.is_content_coded:
        media = "application/octet-stream"
        result.headers = [pair for pair in result.headers if pair[0] != "Content-Encoding"]
    streamed = result.stream is not None or result.events is not None
    if accept.only_json(media):
        body, complete = b"", False
        if is_json(media) and charset_of(result.media_type) in _UTF8:
            body, complete = await result.read_beginning(_MAX_VERIFIED)
            if not complete:
                beginning = body.removeprefix(codecs.BOM_UTF8)
                # Read before the headers are made, which tell whether something was masked.
                headers = [*result_headers(result, outcome), (b"content-type", _JSON)]
                return StreamedResponse(result, headers, outcome, streams=streams, beginning=beginning)
        if not complete:
            body = await _collected(result)
        body = await _converted(body, media, result.media_type)
        headers = [*result_headers(result, outcome), (b"content-type", _JSON)]
    elif result.stream is not None:
        headers = [*result_headers(result, outcome), *_content_type(result.media_type)]
        return StreamedResponse(result, headers, outcome, streams=streams)
    else:
        body = result.body or b""
        headers = result_headers(result, outcome)
        if body:
            headers += _content_type(result.media_type)
    if streamed:
        outcome.add_result(body)
        await outcome.conclude(upstream_status=result.status, response_bytes=len(body))
    return BytesResponse(body, headers)


def result_headers(result: Result, outcome: CallContext) -> Headers:
    """Return the headers of the response to a call that succeeded, without Content-Type."""
    headers: Headers = [
        (b"x-call-id", outcome.call_id.encode()),
        (b"x-upstream-status", b"%d" % result.status),
        *_BROWSER_GUARDS,
    ]
    if outcome.replayed:
        headers.append(_REPLAYED)
    else:
        total = outcome.seconds() * 1000
        upstream = outcome.upstream_seconds * 1000
        timing = b"gateway;dur=%.2f, upstream;dur=%.2f" % (max(total - upstream, 0.0), upstream)
        headers.append((b"server-timing", timing))
    if outcome.repairs:
        headers.append((b"x-argument-repairs", _repairs(outcome.repairs)))
        if outcome.repair_mode != "off":
            headers.append((b"preference-applied", b"repair=" + outcome.repair_mode.encode()))
    headers += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in result.headers]
    return headers


def _repairs(repairs: Sequence[Repair]) -> bytes:
    """Return the repairs of the arguments as a list of RFC 9651: `"#/n";kind=type`, with pointers as URI
    fragments (RFC 6901 section 6).
    """
    items = [f'"#{quote(one.pointer, safe=FRAGMENT_SAFE)}";kind={one.kind}' for one in repairs]
    return ", ".join(items[:_MAX_REPAIRS]).encode()


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
            if size > _MAX_CONVERTED:
                await result.aclose()
                raise ResponseTooLarge(
                    f"The response has more than {_MAX_CONVERTED} bytes and is not JSON: "
                    "request it with `Accept: */*` to receive it unchanged."
                )
            pieces.append(piece)
    return b"".join(pieces)


async def _converted(body: bytes, media: str, media_type: str) -> bytes:
    """Return `_as_json`, computed in a thread where it takes more than about a millisecond."""
    if len(body) > _INLINE_BYTES:
        return await asyncio.to_thread(_as_json, body, media, media_type)
    return _as_json(body, media, media_type)


def _as_json(body: bytes, media: str, media_type: str) -> bytes:
    """Return a body as JSON: JSON unchanged, text as a string, no body as null, the rest in base64."""
    if not body:
        return b'""' if media.startswith("text/") else b"null"
    if is_json(media):
        with contextlib.suppress(orjson.JSONDecodeError):
            orjson.loads(body)
            return body
    # With a content coding that is not known, `media` is not that of the bytes: they are binary.
    text = body_text(body, media_type) if not media or is_textual(media) else None
    if text is None:
        coded = base64.b64encode(body).decode()
        return exact_json.dumps({"media_type": media or "application/octet-stream", "base64": coded})
    if is_json(media):
        # Another encoding than UTF-8, or a byte order mark.
        with contextlib.suppress(orjson.JSONDecodeError):
            return exact_json.dumps(orjson.loads(text.removeprefix("\ufeff")))
    return exact_json.dumps(text)

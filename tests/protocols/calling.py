"""Adapters that may call loopback, and calls, for the tests of all protocols."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from app.core.settings import Settings
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.base import Adapter, AdapterContext, Call, Result, StreamEvent
from app.security.masking import Masker


@contextlib.asynccontextmanager
async def adapter_of(kind: Any, *secrets: str) -> AsyncIterator[Adapter[Any]]:
    """Yield an adapter that may call loopback and masks these secrets."""
    engine = Engine(Guard(allow_networks=["127.0.0.0/8"]))
    masker = Masker()
    for secret in secrets:
        masker.add(secret)
    adapter = kind(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))
    yield adapter
    await adapter.aclose()
    await engine.aclose()


def call_of(adapter: Adapter[Any], template: Any, arguments: Any = None, **fields: Any) -> Call:
    """Return a call with a deadline of 20 `seconds`; `streaming` requests events."""
    now = asyncio.get_running_loop().time()
    seconds, streaming = fields.pop("seconds", 20.0), fields.pop("streaming", False)
    return Call(
        target=adapter.prepare(template),
        arguments={} if arguments is None else arguments,
        credentials=fields.pop("credentials", ()),
        deadline=now + seconds,
        limits=fields.pop("limits", Limits()),
        call_id="01a0-test",
        stream_deadline=now + 60 if streaming else None,
        scope=fields.pop("scope", b"test"),
        **fields,
    )


async def read_response(adapter: Adapter[Any], template: Any, arguments: Any = None, **fields: Any) -> Any:
    """Call the tool and return the body of the response."""
    result = await adapter.call(call_of(adapter, template, arguments, **fields))
    try:
        return await result.read()
    finally:
        await result.aclose()


async def events_of(result: Result) -> list[StreamEvent]:
    """Return all events, and close the result."""
    assert result.events is not None
    try:
        return [event async for event in result.events]
    finally:
        await result.aclose()

"""What the tests of single protocols share: adapters on loopback, and calls."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.base import Adapter, AdapterContext, Call, Result, StreamEvent
from app.security.masking import Masker
from app.settings import Settings


@contextlib.asynccontextmanager
async def adapter_of(kind: Any, *secrets: str) -> AsyncIterator[Adapter[Any]]:
    """An adapter that may go to loopback and strikes these secrets out."""
    engine = Engine(Guard(allow_networks=["127.0.0.0/8"]))
    masker = Masker()
    for secret in secrets:
        masker.add(secret)
    adapter = kind(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))
    yield adapter
    await adapter.aclose()
    await engine.aclose()


def call_of(adapter: Adapter[Any], template: Any, arguments: Any = None, **fields: Any) -> Call:
    """A call with 20 `seconds`; `streaming` takes events."""
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


async def answer_to(adapter: Adapter[Any], template: Any, arguments: Any = None, **fields: Any) -> Any:
    """The body of the answer, read and closed."""
    result = await adapter.call(call_of(adapter, template, arguments, **fields))
    try:
        return await result.read()
    finally:
        await result.aclose()


async def events_of(result: Result) -> list[StreamEvent]:
    """All events."""
    assert result.events is not None
    try:
        return [event async for event in result.events]
    finally:
        await result.aclose()

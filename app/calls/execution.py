"""The natural way of a call: plan, arguments, deadline, a place at the upstream, and its answer."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.call_log.bodies import BodyKeeper
from app.call_log.entries import Recorder
from app.calls.arguments import LARGE
from app.calls.cached_calls import remembered
from app.calls.event_stream import Streams
from app.calls.quota import Quota
from app.calls.rate_limits import allowed
from app.calls.recording import Attempt
from app.calls.sending import prepared, send
from app.catalog import Catalog
from app.catalog.plan import Plan, Uncallable
from app.deadlines import Bound, Timers
from app.errors import AuditUnavailable, NotFound, TimeOver, again
from app.outbound.credentials import CredentialResolver
from app.protocols.base import Result
from app.security.principal import Principal
from app.telemetry.metrics import Metrics
from app.telemetry.tracing import Tracer


@dataclass(slots=True)
class Rooms:
    """What a call goes through; one for the whole application.

    `body_bytes` bounds the arguments, `longest_wait` (seconds) a Retry-After that is waited for. `tracer` is
    None while calls are not traced.
    """

    catalog: Catalog
    resolver: CredentialResolver
    clock: Timers
    calls: Recorder
    metrics: Metrics
    body_bytes: int
    longest_wait: float
    streams: Streams
    quota: Quota
    tracer: Tracer | None = None
    bodies: BodyKeeper | None = None
    argument_values: int = 400_000
    """How many values arguments may have, see `parse_arguments`."""
    identity: str = ""
    """Who this gateway is in CDN-Loop."""


async def admitted(
    name: str, arguments: Any, *, principal: Principal, rooms: Rooms, attempt: Attempt
) -> Plan:
    """The plan of a tool by canonical name or alias, whose arguments fit and which may be called now.

    Raises NotFound (unknown, invisible or disabled), InvalidArguments and RateLimited.
    """
    plan = attempt.plan = await _plan(name, principal, rooms.catalog)
    if attempt.request_bytes > LARGE:
        await asyncio.to_thread(plan.validate, arguments)
    else:
        plan.validate(arguments)
    if principal.rate is not None or plan.rate is not None:
        attempt.standing = await allowed(plan, principal, rooms.quota.rates)
    return plan


async def call(
    plan: Plan,
    arguments: dict[str, Any],
    *,
    principal: Principal,
    rooms: Rooms,
    attempt: Attempt,
    by: float | None = None,
    events: bool = False,
) -> Result:
    """Calls what was `admitted`; the result must be read or closed, then the attempt ended.

    `by` is the `loop.time()` at which the caller wants its answer; the tool's own limit may come before.
    `events` asks for the answer as events, which may last for the limit `stream`. Raises CircuitOpen,
    OriginBusy, TimeOver, AuditUnavailable, what resolving credentials raises, and what an adapter raises
    (`protocols.base`).
    """
    # Waiting for a place, a token and further attempts all count.
    began = rooms.clock.loop.time()
    deadline = began + plan.limits.total
    ends = began + plan.limits.stream if events else None
    if by is not None:
        if by < (deadline if ends is None else ends):
            attempt.hurried = by
        deadline = min(deadline, by)
        ends = None if ends is None else min(ends, by)
    if plan.cache is None or events:
        return await _placed(plan, arguments, rooms=rooms, attempt=attempt, deadline=deadline, ends=ends)
    fetch = partial(_placed, plan, arguments, rooms=rooms, attempt=attempt, deadline=deadline, ends=None)
    return await remembered(
        plan, arguments, answers=rooms.quota.answers, caller=principal.key_id, fetch=fetch, deadline=deadline,
        attempt=attempt,
    )  # fmt: skip


async def _placed(
    plan: Plan,
    arguments: dict[str, Any],
    *,
    rooms: Rooms,
    attempt: Attempt,
    deadline: float,
    ends: float | None,
) -> Result:
    """The upstream's answer, once there is a place for the call; TimeOver where there is no time for it."""
    if rooms.clock.loop.time() >= deadline:
        raise TimeOver("The call's time was over before it could be sent.")
    if not attempt.permit:
        attempt.permit = plan.upstream.enter() or await plan.upstream.wait(deadline)
    if rooms.calls.durable and not plan.safe and not attempt.on_record:
        try:
            with Bound(rooms.clock, deadline):
                await attempt.intend((ends or deadline) - rooms.clock.loop.time())
        except TimeoutError:
            raise AuditUnavailable("The call was not on record in its time. It was not made.") from None
    return await send(
        plan,
        arguments,
        resolver=rooms.resolver,
        deadline=deadline,
        ends=ends,
        longest_wait=rooms.longest_wait,
        attempt=attempt,
    )


def begin(name: str, principal: Principal, *, rooms: Rooms, head: Mapping[bytes, bytes]) -> Attempt:
    """A call that has come in; `head` are its headers."""
    return Attempt(name, principal, calls=rooms.calls, metrics=rooms.metrics, head=head, keeper=rooms.bodies)


async def describe(name: str, arguments: Any, *, principal: Principal, rooms: Rooms) -> dict[str, Any]:
    """The exact upstream request that `call` would send, secrets as `***`; no token is asked for."""
    plan = await _plan(name, principal, rooms.catalog)
    plan.validate(arguments)
    credentials = rooms.resolver.preview(plan.needs, plan.credentials, origin=plan.origin)
    return plan.adapter.describe(prepared(plan, arguments, credentials, call_id="", deadline=0.0))


async def _plan(name: str, principal: Principal, catalog: Catalog) -> Plan:
    try:
        plan = await catalog.plan(name)
    except Uncallable as unusable:
        if not principal.may_use(unusable.provider, unusable.registrar_tags):
            raise NotFound(f"There is no tool {name}.") from None
        raise again(unusable.error) from None
    if not principal.may_use(plan.provider, plan.registrar_tags):
        # In the very words for a tool that does not exist.
        raise NotFound(f"There is no tool {name}.")
    if not plan.enabled:
        raise NotFound(f"The tool {plan.name} is disabled.")
    return plan

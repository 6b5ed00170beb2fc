"""The natural way of a call: plan, arguments, credentials, upstream; once more where a token was refused."""

import time
from dataclasses import dataclass, replace
from typing import Any

from app.catalog import Catalog
from app.catalog.plan import Plan
from app.errors import NotFound, UpstreamUnauthorized
from app.outbound.credentials import CredentialResolver, WireCredential
from app.outbound.timing import Timers
from app.protocols.base import Call, Result
from app.security.principal import Principal
from app.tools.call_records import Attempt


@dataclass(slots=True)
class Rooms:
    """What a call goes through."""

    catalog: Catalog
    resolver: CredentialResolver
    clock: Timers


async def call(name: str, arguments: Any, *, principal: Principal, rooms: Rooms, attempt: Attempt) -> Result:
    """Calls a tool by canonical name or alias; the result must be read or closed.

    Raises NotFound (unknown, invisible or disabled), InvalidArguments, what resolving credentials raises, and
    what an adapter raises (`protocols.base`).
    """
    plan = attempt.plan = await _plan(name, principal, rooms.catalog)
    plan.validate(arguments)
    # The time for getting a token is the call's own.
    deadline = rooms.clock.loop.time() + plan.limits.total
    credentials = await _resolved(plan, rooms.resolver, deadline=deadline)
    prepared = _prepared(plan, arguments, credentials, call_id=attempt.call_id, deadline=deadline)
    began = time.perf_counter()
    try:
        return await plan.adapter.call(prepared)
    except UpstreamUnauthorized:
        refused = [credential.token for credential in credentials if credential.token is not None]
        if not refused:
            raise
        for token in refused:
            await rooms.resolver.invalidate(token)
        # What is answered with a 401 was not carried out: every method may be sent again.
        credentials = await _resolved(plan, rooms.resolver, deadline=deadline)
        return await plan.adapter.call(replace(prepared, credentials=credentials))
    finally:
        attempt.upstream_seconds = time.perf_counter() - began


async def describe(name: str, arguments: Any, *, principal: Principal, rooms: Rooms) -> dict[str, Any]:
    """The exact upstream request that `call` would send, secrets as `***`; no token is asked for."""
    plan = await _plan(name, principal, rooms.catalog)
    plan.validate(arguments)
    credentials = rooms.resolver.preview(plan.needs, plan.credentials, origin=plan.origin)
    return plan.adapter.describe(_prepared(plan, arguments, credentials, call_id="", deadline=0.0))


async def _plan(name: str, principal: Principal, catalog: Catalog) -> Plan:
    plan = await catalog.plan(name)
    if not principal.may_use(plan.provider, plan.registrar_tags):
        # In the very words for a tool that does not exist.
        raise NotFound(f"There is no tool {name}.")
    if not plan.enabled:
        raise NotFound(f"The tool {plan.name} is disabled.")
    return plan


async def _resolved(
    plan: Plan, resolver: CredentialResolver, *, deadline: float
) -> tuple[WireCredential, ...]:
    return await resolver.resolve(
        plan.needs, plan.credentials, origin=plan.origin, egress=plan.egress, deadline=deadline
    )


def _prepared(
    plan: Plan,
    arguments: dict[str, Any],
    credentials: tuple[WireCredential, ...],
    *,
    call_id: str,
    deadline: float,
) -> Call:
    return Call(
        target=plan.target,
        arguments=arguments,
        credentials=credentials,
        deadline=deadline,
        limits=plan.limits,
        call_id=call_id,
        egress=plan.egress,
    )

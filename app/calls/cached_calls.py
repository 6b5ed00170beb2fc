"""A call whose answer may come from memory: what tells it from other calls."""

from collections.abc import Awaitable, Callable
from typing import Any

from app.calls.recording import Attempt
from app.calls.response_cache import Answers, Wanted
from app.calls.sending import prepared
from app.catalog.plan import Plan
from app.protocols.base import Result


async def remembered(
    plan: Plan,
    arguments: dict[str, Any],
    *,
    answers: Answers,
    caller: str,
    fetch: Callable[[], Awaitable[Result]],
    deadline: float,
    attempt: Attempt,
) -> Result:
    """The answer from memory, or what `fetch` gives with `attempt.headers` sent along."""
    rule = plan.cache
    if rule is None:
        return await fetch()
    exact = plan.adapter.exact(prepared(plan, arguments, (), call_id="", deadline=0.0))
    if exact is None:
        return await fetch()
    wanted = Wanted(
        exact,
        identity=identity(plan),
        caller=caller,
        rule=rule,
        cache_control=attempt.head.get(b"cache-control", attempt.head.get(b"pragma", b"")).decode("latin-1"),
        deadline=deadline,
    )
    own = attempt.headers

    async def conditional(conditions: tuple[tuple[str, str], ...]) -> Result:
        attempt.headers = own + conditions
        return await fetch()

    return await answers.answer(wanted, conditional)


def identity(plan: Plan) -> bytes:
    """Whose answers these are: the tool, the way out, the slots it needs, each credential and variable in its
    version, and whether they are masked in it.
    """
    parts = [plan.tool_id.bytes, repr(plan.needs).encode(), b"\x01" if plan.mask_responses else b"\x00"]
    if plan.egress is not None:
        parts.append(plan.egress.key)
    for slot in sorted(plan.credentials):
        credential = plan.credentials[slot]
        parts += (credential.id.bytes, credential.version.to_bytes(8, "big"))
        for variable in credential.variables:
            parts += (variable.id.bytes, variable.version.to_bytes(8, "big"))
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)

"""L: eight toxics in four phases of a call, for each protocol: a typed error in time, and nothing is left behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.faults.load import Caller, Outcome, milliseconds
from tests.faults.proxy import KINDS, FaultProxy, Toxic
from tests.faults.report import Row
from tests.faults.rig import Pulse, Rig, until

TITLE = "faults of an upstream in every phase of a call"
LIMITS = {"connect": 0.6, "first_byte": 1.0, "idle": 1.0, "total": 1.5}
_GRACE = 0.25
"""Seconds that an error may come later than the call's deadline."""
_VALUES = {"latency": 3.0, "slow_close": 3.0, "bandwidth": 20.0, "slicer": 1.0, "limit_data": 10.0}
_PHASES: dict[str, tuple[Any, int]] = {
    "connect": ("up", 0),
    "request": ("up", 600),
    "headers": ("down", 20),
    "body": ("down", 400),
}
"""Which way the toxic lies, and after how many bytes of it; the headers of an answer take some 160."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """A row of the matrix: how a provider of it is registered at a proxy, and the call that is made.

    `small` is answered in one piece, `large` is streamed through. Another protocol is another entry of PROTOCOLS.
    """

    name: str
    small: tuple[str, dict[str, Any]]
    large: tuple[str, dict[str, Any]]


_FILLER = {"filler": "x" * 3000}
PROTOCOLS = (Protocol("http", ("write0", {"body": _FILLER}), ("read", {"bytes": 300_000})),)


async def run(rig: Rig) -> list[Row]:
    """Each cell has a proxy and so an origin of its own: no breaker that one cell opened hides another."""
    await rig.use()
    rows = []
    # Few at a time, because what is measured is how late an error comes.
    turn = asyncio.Semaphore(4)
    for protocol in PROTOCOLS:
        before = await _descriptors(rig)
        kinds = KINDS if rig.full else ("bandwidth", "limit_data", "timeout", "reset_peer")
        cells = [(kind, phase) for kind in kinds for phase in _PHASES]
        async with Pulse(rig) as pulse:

            async def cell(
                kind: Any, phase: str, *, protocol: Protocol = protocol, pulse: Pulse = pulse
            ) -> list[str]:
                async with turn:
                    return await _cell(rig, protocol, kind, phase, pulse)

            faults = [
                fault for found in await asyncio.gather(*(cell(*one) for one in cells)) for fault in found
            ]
        rows.append(
            Row("L", f"{protocol.name}: {len(kinds)} toxics x {len(_PHASES)} phases, a small and a large answer",
                f"the answer, or a typed error (or a visibly cut stream) within the deadline + {milliseconds(_GRACE)}",
                f"{len(cells) * 2 - len(faults)} of {len(cells) * 2} cells" + "".join(f"; {fault}" for fault in faults[:6]),
                not faults)
        )  # fmt: skip
        left = await until(lambda: _back(rig, before), 15)  # noqa: B023  Used before the next turn.
        now = await _descriptors(rig)
        rows.append(
            Row("L", f"{protocol.name}: what is left behind", "file descriptors and calls under way as before",
                f"descriptors {before} -> {now}, after {left:.1f} s", left < 15)
        )  # fmt: skip
    return rows


@asynccontextmanager
async def _provider(rig: Rig, protocol: Protocol, name: str) -> AsyncIterator[FaultProxy]:
    async with rig.link() as link:
        await rig.register(name, f"http://{link.address}", limits=LIMITS)
        yield link


async def _cell(rig: Rig, protocol: Protocol, kind: Any, phase: str, pulse: Pulse) -> list[str]:
    """What was wrong, "" for nothing."""
    name = f"l-{protocol.name}-{kind}-{phase}".replace("_", "-")
    faults = []
    replica = rig.replicas.all[len(name) % 3]
    async with _provider(rig, protocol, name) as link, Caller(replica.url, rig.replicas.key) as caller:
        way, after = _PHASES[phase]
        for size, (tool, arguments) in (("small", protocol.small), ("large", protocol.large)):
            warm = await caller.call(f"{name}.{tool}", arguments)
            link.poison(Toxic(kind, way, after=after, value=_VALUES.get(kind, 0.0)))
            # The connection that the engine kept has used up its bytes: it must make a new one.
            link.reset()
            await asyncio.sleep(0.05)
            outcome = await caller.call(f"{name}.{tool}", arguments)
            await link.heal()
            fault = _judged(outcome, pulse.slack) if warm.ok else f"warming up: {warm.status} {warm.slug}"
            if fault:
                faults.append(f"{kind} in {phase}, {size}: {fault}")
    return faults


def _judged(outcome: Outcome, slack: float) -> str:
    late = outcome.seconds - LIMITS["total"] - slack
    if late > _GRACE:
        return f"{milliseconds(late)} late ({outcome.word})"
    # A stream that is cut looks like a broken connection to the caller: status 0, never a short 200.
    if outcome.ok or outcome.typed or outcome.status == 0:
        return ""
    return f"status {outcome.status} {outcome.body!r:.80}"


async def _descriptors(rig: Rig) -> list[int]:
    return [replica.descriptors() for replica in rig.replicas.all]


async def _back(rig: Rig, before: list[int]) -> bool:
    """Connections that are kept alive go within five seconds; three may have come for the pools."""
    under_way = [await rig.metric(replica, "utcp_gateway_calls_in_flight") for replica in rig.replicas.all]
    return not any(under_way) and all(
        now <= then + 3 for now, then in zip(await _descriptors(rig), before, strict=True)
    )

"""L: eight toxics in four phases of a call, for each protocol: a typed error in time, and no resource is leaked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.faults.load import Client, Outcome, milliseconds
from tests.faults.proxy import KINDS, FaultProxy, Toxic
from tests.faults.report import Row
from tests.faults.rig import LivenessProbe, Rig, until

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
"""The direction of the toxic, and after how many bytes it starts; the headers of a response take some 160."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """A row of the matrix: the calls of one protocol, as (tool, arguments).

    `small` has a buffered response, `large` a streamed one. To test another protocol, add an entry to PROTOCOLS.
    """

    name: str
    small: tuple[str, dict[str, Any]]
    large: tuple[str, dict[str, Any]]


_FILLER = {"filler": "x" * 3000}
PROTOCOLS = (Protocol("http", ("write0", {"body": _FILLER}), ("read", {"bytes": 300_000})),)


async def run(rig: Rig) -> list[Row]:
    """Each cell has its own proxy and so its own origin, so that the breaker of one cell does not affect another."""
    await rig.use()
    rows = []
    # Few at a time, because the delay of errors is measured.
    limit = asyncio.Semaphore(4)
    for protocol in PROTOCOLS:
        before = await _descriptors(rig)
        kinds = KINDS if rig.full else ("bandwidth", "limit_data", "timeout", "reset_peer")
        cells = [(kind, phase) for kind in kinds for phase in _PHASES]
        async with LivenessProbe(rig) as probe:

            async def cell(
                kind: Any, phase: str, *, protocol: Protocol = protocol, probe: LivenessProbe = probe
            ) -> list[str]:
                async with limit:
                    return await _cell(rig, protocol, kind, phase, probe)

            errors = [
                error for found in await asyncio.gather(*(cell(*one) for one in cells)) for error in found
            ]
        rows.append(
            Row("L", f"{protocol.name}: {len(kinds)} toxics x {len(_PHASES)} phases, a small and a large response",
                f"the response, or a typed error (or a visibly truncated stream) within the deadline + {milliseconds(_GRACE)}",
                f"{len(cells) * 2 - len(errors)} of {len(cells) * 2} cells" + "".join(f"; {error}" for error in errors[:6]),
                not errors)
        )  # fmt: skip
        seconds = await until(lambda: _at_baseline(rig, before), 15)  # noqa: B023  Used within this iteration.
        now = await _descriptors(rig)
        rows.append(
            Row("L", f"{protocol.name}: resources afterwards", "file descriptors and calls in progress as before",
                f"descriptors {before} -> {now}, after {seconds:.1f} s", seconds < 15)
        )  # fmt: skip
    return rows


@asynccontextmanager
async def _provider(rig: Rig, protocol: Protocol, name: str) -> AsyncIterator[FaultProxy]:
    async with rig.link() as link:
        await rig.register(name, f"http://{link.address}", limits=LIMITS)
        yield link


async def _cell(rig: Rig, protocol: Protocol, kind: Any, phase: str, probe: LivenessProbe) -> list[str]:
    """Return the errors of one cell."""
    name = f"l-{protocol.name}-{kind}-{phase}".replace("_", "-")
    errors = []
    replica = rig.replicas.all[len(name) % 3]
    async with _provider(rig, protocol, name) as link, Client(replica.url, rig.replicas.key) as client:
        direction, after = _PHASES[phase]
        for size, (tool, arguments) in (("small", protocol.small), ("large", protocol.large)):
            warm = await client.call(f"{name}.{tool}", arguments)
            link.poison(Toxic(kind, direction, after=after, value=_VALUES.get(kind, 0.0)))
            # Force a new connection: an idle one has already transferred more bytes than `after`.
            link.reset()
            await asyncio.sleep(0.05)
            outcome = await client.call(f"{name}.{tool}", arguments)
            await link.heal()
            error = _error_of(outcome, probe.slowest) if warm.ok else f"warming up: {warm.status} {warm.slug}"
            if error:
                errors.append(f"{kind} in {phase}, {size}: {error}")
    return errors


def _error_of(outcome: Outcome, slowest: float) -> str:
    late = outcome.seconds - LIMITS["total"] - slowest
    if late > _GRACE:
        return f"{milliseconds(late)} late ({outcome.label})"
    # A truncated stream looks like a broken connection to the client: status 0, never a short 200.
    if outcome.ok or outcome.typed or outcome.status == 0:
        return ""
    return f"status {outcome.status} {outcome.body!r:.80}"


async def _descriptors(rig: Rig) -> list[int]:
    return [replica.descriptors() for replica in rig.replicas.all]


async def _at_baseline(rig: Rig, before: list[int]) -> bool:
    """Idle connections are closed within five seconds; the pools may have three more."""
    in_flight = [await rig.metric(replica, "utcp_gateway_calls_in_flight") for replica in rig.replicas.all]
    return not any(in_flight) and all(
        now <= then + 3 for now, then in zip(await _descriptors(rig), before, strict=True)
    )

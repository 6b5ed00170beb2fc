"""Nobody gets somebody else's response, whatever the upstream sends."""

import asyncio
from collections import Counter

import pytest
import uvloop

from app.core.errors import GatewayError
from app.outbound.guard import Guard
from app.outbound.http import Engine, OutboundRequest
from app.outbound.http1.pool import PROBATION_SECONDS
from tests.harness.cases import for_each
from tests.harness.desynchronized import MODES, DesynchronizedUpstream

# It speaks just when the next request has arrived, which looks like the response to that: see docs/operations.md.
_UNTELLABLE = "on-request"


async def _attack(mode: str, *, every: int, calls: int = 200, workers: int = 8) -> Counter[str]:
    """`own`, `same` (another's of the same scope), `cross` (of another scope), and `failed` calls."""
    found: Counter[str] = Counter()
    engine = Engine(Guard(allow_networks=["127.0.0.0/8"]))
    numbers = iter(range(calls))

    async def work(upstream: DesynchronizedUpstream) -> None:
        for number in numbers:
            scope = ("red", "blue")[number % 2]
            nonce = f"{scope}-{number}"
            method = "POST" if number % 3 == 1 else "GET"
            if mode == "head" and number % 3 == 0:
                method = "HEAD"
            # An upstream that does not read it takes it for the next request.
            body = f'{{"x": "?id={nonce} "}}'.encode() if method == "POST" else None
            url = f"{upstream.url}/?id={nonce}"
            try:
                response = await engine.request(OutboundRequest(method, url, body=body, scope=scope.encode()))
                text = (await response.read(10_000)).decode()
            except GatewayError:
                found["failed"] += 1
                continue
            if not text:
                continue
            found["own" if f'"{nonce}"' in text else "same" if f'"{scope}-' in text else "cross"] += 1

    async with DesynchronizedUpstream(mode, every=every) as upstream:
        await asyncio.gather(*(work(upstream) for _ in range(workers)))
        found["connections"] = upstream.connections
    await engine.aclose()
    return found


@pytest.mark.parametrize("every", [1, 5])
@for_each("mode", MODES)
def test_no_response_reaches_another_call(mode: str, every: int) -> None:
    # In the gateway's own loop, whose writes and reads come at other times than asyncio's.
    found = uvloop.run(_attack(mode, every=every))
    assert found["cross"] == 0
    if mode == _UNTELLABLE:
        # Once per connection that was in use when the first was found out.
        assert found["same"] <= 8
    else:
        assert found["same"] == 0
    assert found["own"] + found["failed"] or mode in ("204", "304")
    assert not found["failed"] or mode == "both-lengths"


async def test_connections_to_a_correct_upstream_are_reused_after_probation() -> None:
    engine = Engine(Guard(allow_networks=["127.0.0.0/8"]))

    async def call(method: str, upstream: DesynchronizedUpstream) -> None:
        body = b"{}" if method == "POST" else None
        request = OutboundRequest(method, f"{upstream.url}/?id=red-1", body=body, scope=b"red")
        assert b'"red-1"' in await (await engine.request(request)).read(10_000)

    async with DesynchronizedUpstream("sound", every=1) as upstream:
        for method in ("GET", "POST"):
            await call(method, upstream)
        await asyncio.sleep(PROBATION_SECONDS + 0.1)
        before = upstream.connections
        for number in range(100):
            await call(("GET", "POST")[number % 2], upstream)
        # One may have been closed for its age meanwhile.
        assert upstream.connections - before <= 1
    await engine.aclose()

"""Q: attacks on the HTTP server with data before, around and after requests: latency and memory stay within limits."""

import asyncio
import sys
import time
from dataclasses import dataclass, field

from tests.faults.edge_attacks import ATTACKS
from tests.faults.gateways import Replica
from tests.faults.load import milliseconds, percentile
from tests.faults.report import Row
from tests.faults.rig import Rig

TITLE = "attacks on the HTTP server"
_SECONDS = 5.0
_SHORT = 2.0
_SLICE_ATTACKS = ("64 MB header value", "48 MB of trailers", "3,000 unfinished heads")
_P99 = 0.2
_MEMORY = 20 << 20
_LIVE = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass(slots=True)
class _Prober:
    """Requests /health/live over a persistent connection and over a new one, in turn."""

    host: str
    port: int
    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    async def run(self) -> None:
        """Send requests until it is cancelled."""
        persistent: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        new = False
        while True:
            began = time.monotonic()
            try:
                async with asyncio.timeout(10):
                    pair = persistent if persistent is not None and not new else await self._open()
                    ok = await _is_live(*pair)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                ok, persistent = False, None
            else:
                if new:
                    pair[1].transport.abort()
                else:
                    persistent = pair
            self.seconds.append(time.monotonic() - began)
            self.failed += not ok
            new = not new
            await asyncio.sleep(0.01)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.host, self.port)


async def _is_live(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(_LIVE)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length))
    return b" 200 " in head.partition(b"\r\n")[0]


async def run(rig: Rig) -> list[Row]:
    """Each attack is directed at a replica itself, and at nginx with `deploy/nginx.conf`."""
    await rig.use()
    replica = rig.replicas.all[0]
    ports = {"no proxy in front": replica.port}
    if rig.full:
        ports["nginx in front"] = rig.nginx.port
    return [
        await _attacked(rig, name, port, where)
        for where, port in ports.items()
        for name in (ATTACKS if rig.full else _SLICE_ATTACKS)
    ]


async def _attacked(rig: Rig, name: str, port: int, where: str) -> Row:
    seconds = _SECONDS if rig.full else _SHORT
    usual = await _probed(port, None, seconds / 4, rig.replicas.all)
    under = await _probed(port, name, seconds, rig.replicas.all)
    p99, before = percentile(under.seconds, 0.99), percentile(usual.seconds, 0.99)
    return Row(
        "Q", f"{name}, {where}, {seconds:.0f} s", "/health/live p99 <= 200 ms + the p99 before, memory + <= 20 MB",
        f"p50 {milliseconds(percentile(under.seconds, 0.5))}, p99 {milliseconds(p99)} (before: {milliseconds(before)}),"
        f" {under.failed} of {len(under.seconds)} failed, + {under.grown / (1 << 20):.1f} MB; {under.summary}",
        p99 <= _P99 + before and under.grown <= _MEMORY and not under.failed,
    )  # fmt: skip


@dataclass(slots=True)
class _Found:
    seconds: list[float]
    failed: int
    grown: int
    summary: str


async def _probed(port: int, attack: str | None, seconds: float, replicas: list[Replica]) -> _Found:
    """Probe /health/live while an attack runs, and measure the growth of the replica that grew most."""
    before = [one.resident() for one in replicas]
    grown = 0
    prober = _Prober("127.0.0.1", port)
    probing = asyncio.create_task(prober.run())
    process = None
    if attack is not None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.edge_attacks", attack, "127.0.0.1", str(port), str(seconds),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    summary = b""
    ending = asyncio.create_task(asyncio.sleep(seconds) if process is None else _output(process))
    while not ending.done():
        await asyncio.sleep(0.05)
        grown = max([grown, *(one.resident() - old for one, old in zip(replicas, before, strict=True))])
    summary = await ending or b""
    probing.cancel()
    await asyncio.gather(probing, return_exceptions=True)
    return _Found(prober.seconds, prober.failed, grown, summary.decode().strip())


async def _output(process: asyncio.subprocess.Process) -> bytes:
    out, _ = await process.communicate()
    return out

"""O: the sealing key is rotated while calls with stored credentials run; then sealed rows are exchanged in the database."""

import asyncio
from typing import Any

from tests.faults.load import Load, counts
from tests.faults.report import Row
from tests.faults.rig import Rig
from tests.harness.gateway import run_command

TITLE = "rotation of the sealing key under load"


async def run(rig: Rig) -> list[Row]:
    """The procedure of docs/operations.md, replica by replica, under load."""
    await rig.use()
    await rig.register("o", rig.stub.url)
    await rig.register("p", rig.stub.url)
    await rig.warm("o.keyed")
    wrong = rig.stub.wrong_keys
    async with rig.client() as client:

        def make(_worker: int, number: int) -> tuple[str, dict[str, Any]]:
            return ("o.keyed", "p.keyed", "o.secure")[number % 3], {"id": f"o{number}"}

        async with Load(client, make, concurrency=6, pause=0.01) as load:
            rewrapped = await _rotate(rig)
    rows = [
        Row("O", "new sealing key in front, rewrapped, old key removed; replicas restarted one after the other under load",
            "0 failed calls, 0 wrong credentials",
            f"{len(load.failed)} of {len(load.outcomes)} failed, {rig.stub.wrong_keys - wrong} wrong; {rewrapped}"
            + (f" ({counts(load.failed)})" if load.failed else ""),
            not load.failed and rig.stub.wrong_keys == wrong),
    ]  # fmt: skip
    rows.append(await _swapped(rig))
    return rows


async def _rotate(rig: Rig) -> str:
    """Rotate the sealing key and return the last line of `bootstrap --rotate`."""
    replicas = rig.replicas
    old = replicas.environment["SEALING_KEYS"]
    made = await asyncio.to_thread(
        run_command, "bootstrap", "--new-sealing-key", environment=replicas.environment
    )
    new = made.stdout.strip()
    replicas.use_ring(f"{new},{old}")
    await _restart_each(rig)
    done = await asyncio.to_thread(run_command, "bootstrap", "--rotate", environment=replicas.environment)
    assert done.returncode == 0, done.stderr
    replicas.use_ring(new)
    await _restart_each(rig)
    return done.stderr.strip().splitlines()[-1]


async def _restart_each(rig: Rig) -> None:
    for replica in rig.replicas.all:
        replica.terminate()
        await replica.wait_ended()
        replica.spawn(rig.replicas.environment)
        await rig.replicas.one_ready(replica)


async def _swapped(rig: Rig) -> Row:
    """Exchange the sealed keys of two providers in the database, as an attacker with its password could."""
    primary = rig.servers.primary
    rows = await primary.query(
        "SELECT c.id, c.sealed FROM credentials c JOIN providers p ON p.id = c.provider_id"
        " WHERE p.name IN ('o', 'p') AND c.slot = 'key' ORDER BY p.name"
    )
    first, second = rows
    for target, source in ((first, second), (second, first)):
        await primary.query(
            "UPDATE credentials SET sealed = $2 WHERE id = $1", target["id"], source["sealed"]
        )
    await _restart_each(rig) if rig.full else await _reload_credentials(rig)
    before = rig.stub.by_path["/keyed"]
    outcomes = []
    async with rig.client() as client:
        outcomes = [await client.call(f"{name}.keyed", {"id": "swapped"}) for name in ("o", "p")]
    sent = rig.stub.by_path["/keyed"] - before
    for row in rows:
        await primary.query("UPDATE credentials SET sealed = $2 WHERE id = $1", row["id"], row["sealed"])
    await _reload_credentials(rig)
    async with rig.client() as client:
        restored = [await client.call(f"{name}.keyed", {"id": "restored"}) for name in ("o", "p")]
    return Row(
        "O", "the sealed keys of two providers are exchanged in the database", "both rejected, nothing sent; restored: both work",
        f"{counts(outcomes)}, {sent} sent; restored: {counts(restored)}",
        not any(one.ok for one in outcomes) and sent == 0 and all(one.ok for one in restored),
    )  # fmt: skip


async def _reload_credentials(rig: Rig) -> None:
    """Make every replica reload the credentials, by changing a variable of all providers."""
    async with rig.client() as client:
        status, body, _ = await client.request(
            "PUT", "/variables/REREAD", json={"value": "x", "secret": False}
        )
    assert status in (200, 201, 204), (status, body)
    await asyncio.sleep(1.5)

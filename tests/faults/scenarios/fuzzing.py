"""A: schemathesis while Redis and PostgreSQL are interrupted: 429, 503 and 504 are allowed in addition, never a 500."""

import asyncio
import os
import re
import sys
from pathlib import Path

from app.core.processes import run_child_process
from tests.faults.proxy import Toxic
from tests.faults.report import Row
from tests.faults.rig import Rig

TITLE = "schemathesis while servers are interrupted"
_CONFIGURATION = """
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 502, 503, 504]
"""
_CHECKS = "not_a_server_error,content_type_conformance,status_code_conformance,response_schema_conformance"


async def run(rig: Rig) -> list[Row]:
    """Only the checks that hold while a server is unavailable: a 503 does not tell whether the data was valid."""
    # Generated URLs may refer to any port of this machine.
    await rig.use(TOTAL_TIMEOUT="3", CONNECT_TIMEOUT="1")
    configuration = rig.folder / "schemathesis.toml"
    configuration.write_text(_CONFIGURATION)
    before = len(rig.replicas.tracebacks())
    stop = asyncio.Event()
    interruptions = asyncio.create_task(_interrupt(rig, stop))
    command = [
        str(Path(sys.executable).with_name("st")), "--config-file", str(configuration), "run", f"{rig.replicas.all[0].url}/openapi.json",
        "--header", f"Authorization: Bearer {rig.replicas.key}", "--checks", _CHECKS, "--mode", "all",
        "--phases", "examples,fuzzing", "--max-examples", "25" if rig.full else "2", "--seed", "4",
        "--workers", "1", "--request-timeout", "20", "--warnings", "off", "--continue-on-failure",
    ]  # fmt: skip
    if not rig.full:
        command += [
            "--include-operation-id-regex",
            "^(callTool|listTools|createKey|listProviders|manual|ready)$",
        ]
    merged = asyncio.subprocess.STDOUT
    async with run_child_process(*command, env=os.environ, cwd=str(rig.folder), stderr=merged) as process:
        output = (await process.communicate())[0].decode(errors="replace")
    stop.set()
    faults = await interruptions
    (rig.folder / "schemathesis.txt").write_text(output)
    cases = re.search(r"(\d+) generated", output)
    failures = re.findall(r"^- (.+)$", output, re.MULTILINE)[:5]
    unexpected = len(rig.replicas.tracebacks()) - before
    if process.returncode:
        sys.stderr.write(output[-6000:])
    return [
        Row("A", f"schemathesis while PostgreSQL and Redis were each cut or black-holed ({faults} faults)",
            "no failure, no 500, no unhandled error",
            f"{cases[1] if cases else '?'} cases, exit {process.returncode}, {unexpected} unhandled" + "".join(
                f"; {one[:120]}" for one in failures), process.returncode == 0 and unexpected == 0),
    ]  # fmt: skip


async def _interrupt(rig: Rig, stop: asyncio.Event) -> int:
    """Inject one fault after the other until `stop` is set; return their number."""
    number = 0
    while not stop.is_set():
        link = (rig.database, rig.redis)[number % 2]
        if number % 4 < 2:
            await link.cut()
        else:
            link.poison(Toxic("timeout", "up"))
        await asyncio.sleep(0.7)
        await link.heal()
        number += 1
        await asyncio.sleep(1.0)
    return number

"""Programs: a script of Python, by the interpreter that runs the tests."""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.protocols.kits.base import HUGE, Kit, Template, Upstream

MISSING = "/nowhere/to/be/found"
_SCRIPT = """
import json, os, pathlib, signal, sys, time

folder, case = pathlib.Path(sys.argv[1]), sys.argv[2]
with (folder / "seen").open("a") as seen:
    seen.write(json.dumps(dict(os.environ)) + "\\n")
(folder / f"{case}.pid").write_text(str(os.getpid()))
if case == "utcp":
    template = {"call_template_type": "cli", "commands": [{"command": f"{sys.executable} {__file__} {folder} echo"}]}
    print(json.dumps({"utcp_version": "1.0.1", "tools": [{"name": "echo", "tool_call_template": template}]}))
elif case == "echo":
    print(sys.argv[3])
elif case == "silent":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
elif case == "breaks":
    print('{"n": 0', flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
elif case == "huge":
    print("x" * HUGE)
elif case == "rejects":
    print("no such thing", os.environ.get("X_CANARY"), file=sys.stderr)
    sys.exit(3)
elif case == "stream":
    for n in range(3):
        print(json.dumps({"n": n}), flush=True)
        time.sleep(0.05)
else:
    for n in range(1 << 60):
        print(json.dumps({"n": n, "p": "x" * 4096}), flush=True)
        (folder / "sent").write_text(str(n))
"""


class _Upstream(Upstream):
    """What the script has left in its folder."""

    @property
    def seen(self) -> list[dict[str, str]]:  # type: ignore[override]
        path = Path(self.place) / "seen"
        lines = path.read_text().splitlines() if path.exists() else []
        return [{name.lower(): value for name, value in json.loads(line).items()} for line in lines]

    @seen.setter
    def seen(self, value: object) -> None:
        pass

    @property
    def sent(self) -> int:  # type: ignore[override]
        path = Path(self.place) / "sent"
        return int((path.read_text() if path.exists() else "") or 0)

    @sent.setter
    def sent(self, value: object) -> None:
        pass

    async def watch(self) -> None:
        """Sets `gone` when the script of a case that does not end by itself has ended."""
        while True:
            await asyncio.sleep(0.02)
            for case in ("silent", "endless"):
                path = Path(self.place) / f"{case}.pid"
                if path.exists() and (text := path.read_text()) and not alive(int(text)):
                    self.gone.set()


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


class CliKit(Kit):
    protocol = "cli"
    places = ("/env_vars/X_CANARY",)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "script.py").write_text(_SCRIPT.replace("HUGE", str(HUGE)))
            upstream = _Upstream(folder)
            watching = asyncio.create_task(upstream.watch())
            try:
                yield upstream
            finally:
                watching.cancel()

    def template(self, upstream: Upstream, case: str) -> Template:
        if case == "unreachable":
            return {"call_template_type": "cli", "commands": [{"command": MISSING}]}
        argument = " UTCP_ARG_body_UTCP_END" if case == "echo" else ""
        command = f"{sys.executable} {upstream.place}/script.py {upstream.place} {case}{argument}"
        env = {"X_CANARY": ""} if case in ("echo", "rejects") else {}
        return {"call_template_type": "cli", "commands": [{"command": command}], "env_vars": env}

    def discovery(self, upstream: Upstream) -> Template:
        return self.template(upstream, "utcp")

    def arguments(self) -> dict[str, Any]:
        return {"body": super().arguments()}

    def echoed(self, body: bytes) -> Any:
        return {"body": json.loads(body)}

    def found(self, seen: dict[str, str], place: str) -> str | None:
        return seen.get("x_canary")

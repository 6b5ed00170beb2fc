"""Record what the vendors' SDKs send for the operations of the catalogue: `python -m tests.plugins.record [NAME ...]`.

`drivers/NAME_driver.py` (or `.mjs`) runs in the environment of the SDKs, and `recorded/NAME.json` is what it sent.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.interop.environments import install
from tests.plugins.recorder import RecordedCall, recorder
from tests.plugins.requests import Json
from tests.plugins.sdks import SDKS, Sdk

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
_SECONDS = 120


class RecordingError(Exception):
    """A driver failed, or did not send exactly one request for an operation."""


def record(name: str) -> Json:
    """Return the recorded requests of a plugin's SDK; raise RecordingError."""
    sdk = SDKS[name]
    with recorder() as running:
        done = subprocess.run(
            sdk.command(HERE / "drivers"),
            env={"PATH": os.environ["PATH"], "RECORDER_URL": running.url, "NO_PROXY": "*", **sdk.environment},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RecordingError(f"The driver of {name} failed: {done.stderr[-2000:]}")
        operations = [_operation(name, one) for one in running.calls]
    differs = {pointer for one in running.calls for pointer in one.announced["may_differ"].items()}
    return {
        "plugin": name,
        "sdk": sdk.to_json(),
        "differences": [{"at": pointer, "reason": reason} for pointer, reason in sorted(differs)],
        "operations": operations,
    }


def _operation(name: str, call: RecordedCall) -> Json:
    tool = call.announced["tool"]
    if len(call.requests) != 1:
        raise RecordingError(f"{name}: {tool} sent {len(call.requests)} requests, and not one")
    return {
        "tool": tool,
        "arguments": call.announced["arguments"],
        "request": call.requests[0].to_json(),
        "differences": [{"at": at, "reason": reason} for at, reason in call.announced["differs"].items()],
    }


def stored(name: str) -> Any:
    """Return the content of the plugin's file in `recorded/`."""
    return json.loads((RECORDED / f"{name}.json").read_bytes())


def main(names: list[str]) -> None:
    """Write the files of these plugins, or of all."""
    for environment in sorted({sdk.environment_name for sdk in SDKS.values()}):
        install(environment)
    for name in names or sorted(SDKS):
        text = json.dumps(record(name), indent=2, ensure_ascii=False)
        (RECORDED / f"{name}.json").write_text(text + "\n")
        print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

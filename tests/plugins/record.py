"""Record what the vendors' SDKs send for the operations of the catalogue: `make plugin-requests`, ARGS="NAME ...".

The driver of a plugin runs in the environment of its SDK, and `recorded/NAME.json` is what the SDK sent.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.plugins.recorder import RecordedCall, recorder
from tests.plugins.requests import Json
from tests.plugins.sdks import SDKS, driver

RECORDED = Path(__file__).parent / "recorded"
_SECONDS = 120


class RecordingError(Exception):
    """A driver failed, or did not send exactly one request for an operation."""


def record(plugin: str) -> Json:
    """Return the recorded requests of a plugin's SDK; raise RecordingError, or InstallError where it is not installed."""
    sdk = SDKS[plugin]
    with driver(plugin) as command, recorder() as running:
        done = subprocess.run(
            command,
            env={"PATH": os.environ["PATH"], "RECORDER_URL": running.url, "NO_PROXY": "*"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        calls = list(running.calls)
    if done.returncode:
        raise RecordingError(f"The driver of {plugin} failed: {done.stderr[-2000:]}")
    return {
        "plugin": plugin,
        "sdk": {
            "registry": sdk.registry,
            "package": sdk.package,
            "version": sdk.version,
            "license": sdk.license,
            "source": sdk.source,
        },
        "equivalent": _reasons("form", calls[-1].announced["equivalent"]),
        "differences": _reasons("at", calls[-1].announced["may_differ"]),
        "operations": [_operation(plugin, one) for one in calls],
    }


def _operation(plugin: str, call: RecordedCall) -> Json:
    tool = call.announced["tool"]
    if len(call.requests) != 1:
        raise RecordingError(f"{plugin}: {tool} sent {len(call.requests)} requests, and not one")
    return {
        "tool": tool,
        "arguments": call.announced["arguments"],
        "request": call.requests[0].to_json(),
        "differences": _reasons("at", call.announced["differs"]),
    }


def _reasons(key: str, given: dict[str, str]) -> list[Json]:
    return [{key: name, "reason": reason} for name, reason in sorted(given.items())]


def stored(plugin: str) -> Any:
    """Return what is recorded of a plugin's SDK."""
    return json.loads((RECORDED / f"{plugin}.json").read_bytes())


def main(plugins: list[str]) -> None:
    """Write the files of these plugins, or of all."""
    for plugin in plugins or sorted(SDKS):
        text = json.dumps(record(plugin), indent=1, ensure_ascii=False)
        (RECORDED / f"{plugin}.json").write_text(text + "\n")
        print(plugin, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

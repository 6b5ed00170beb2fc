"""What the drivers of Python SDKs share: they announce an operation to the recorder, then let the SDK send its request.

They run in the environment of the SDKs, and use nothing of the gateway.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

RECORDER = os.environ["RECORDER_URL"]
CREDENTIAL = "test-credential"
"""The key or token of every SDK; the gateway stores the same."""

_shared: dict[str, str] = {}
_equivalent: dict[str, str] = {}


def at(url: str) -> str:
    """Return the address of the recorder that stands in for an address of the API."""
    scheme, _, rest = url.partition("://")
    return f"{RECORDER}/-/{scheme}/{rest}"


def always_differs(pointer: str, reason: str) -> None:
    """Say that the requests of all operations, or of several, differ at a JSON pointer, and why."""
    _shared[pointer] = reason


def also_accepts(equivalence: str, reason: str) -> None:
    """Say that the API takes requests in another way, too, in which the gateway sends them, and why.

    `equivalence` is one of EQUIVALENCES in tests/plugins/requests.py.
    """
    _equivalent[equivalence] = reason


@contextmanager
def call(
    tool: str, arguments: Mapping[str, Any], *, reply: Any = None, differs: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Record the request that the block lets the SDK send, as that of a tool with these arguments.

    `reply` is the JSON that the recorder responds with. An SDK that does not accept it has sent its request all the same, so that its
    exception is no error. `differs` says where the request of the gateway differs, by JSON pointer, and why.
    """
    announced = {
        "tool": tool,
        "arguments": arguments,
        "reply": {} if reply is None else reply,
        "differs": dict(differs or {}),
        "may_differ": _shared,
        "equivalent": _equivalent,
    }
    _control("PUT", announced)
    try:
        yield
    except Exception:
        if not _control("GET")["requests"]:
            raise


def _control(method: str, content: Any = None) -> Any:
    body = None if content is None else json.dumps(content).encode()
    with urlopen(Request(f"{RECORDER}/_recorder/call", data=body, method=method)) as response:
        return json.load(response)

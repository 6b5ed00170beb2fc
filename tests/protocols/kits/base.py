"""What the contract suite needs of a protocol's upstream."""

import asyncio
import re
import socket
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar

import orjson

from app.outbound.credential_rendering import WireCredential
from app.security.secret import Secret

Template = dict[str, Any]

# The bytes of the response of the case `huge`, at least; the limit of the contract suite is a third.
HUGE = 1 << 20


@dataclass
class Upstream:
    """A running upstream. It responds by case (`Kit.template` puts the case into the template):

    - echo: the arguments, as JSON, as its protocol encodes them
    - silent: nothing, until the client disconnects
    - breaks: the beginning of a response, then the connection ends
    - huge: more than HUGE bytes
    - rejects: an error of the protocol
    - stream: the arguments `{"n": 0}`, `{"n": 1}`, `{"n": 2}`, 50 ms apart
    - endless: `{"n": 0}`, `{"n": 1}`, ... as fast as they are taken
    """

    place: Any
    seen: list[dict[str, str]] = field(default_factory=list)
    """What each request brought besides its arguments: headers, metadata, environment; names in lower case."""
    sent: int = 0
    """Pieces that `endless` has handed to its transport."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client of `silent`, `stream` or `endless` has disconnected."""


class Kit(ABC):
    """One protocol."""

    protocol: ClassVar[str]
    cases: ClassVar[frozenset[str]] = frozenset(
        {"echo", "silent", "breaks", "huge", "rejects", "stream", "endless", "unreachable"}
    )
    """What the protocol can do; `unreachable` is a template at a place where nobody listens."""
    places: ClassVar[tuple[str, ...]] = ("header",)
    """Where its credentials may stand: header, query, cookie, or the JSON pointer of a sealed field."""
    peer_members: ClassVar[frozenset[str]] = frozenset()
    """Members of a template without which this peer would not understand the call, although others would."""
    discovers: ClassVar[bool] = True
    """Whether tools are discovered at the upstream; else it registers them itself."""
    text_only: ClassVar[bool] = False
    """Whether arguments reach the upstream as text, so that types are lost."""

    def through(self, upstream: Upstream, port: int) -> tuple[Template, int] | None:
        """The template of `echo` with this port of loopback in place of the upstream's, and which that is; None
        for a protocol without a TCP connection."""
        template = self.template(upstream, "echo")
        if isinstance(template.get("port"), int) and self.protocol != "udp":
            return {**template, "port": port}, template["port"]
        text = orjson.dumps(template).decode()
        found = re.search(r"://127\.0\.0\.1:(\d+)", text)
        if found is None:
            return None
        return orjson.loads(text.replace(found[0], f"://127.0.0.1:{port}")), int(found[1])

    @abstractmethod
    def serve(self) -> AbstractAsyncContextManager[Upstream]:
        """A running upstream on loopback."""

    def anew(self, stack: AsyncExitStack) -> AbstractAsyncContextManager[Upstream]:
        """Return an upstream without earlier calls. A server that is slow to start may run until `stack` ends."""
        return self.serve()

    @abstractmethod
    def template(self, upstream: Upstream, case: str) -> Template:
        """The call template of a tool, in 1.x spelling, that has the upstream respond by this case."""

    @abstractmethod
    def discovery(self, upstream: Upstream) -> Template:
        """The template with which the upstream's tools are discovered; one of them is called `echo`."""

    def addresses(self, text: str) -> list[Template]:
        """Templates with this host in every field that holds an address; the host may be no legal one."""
        return []

    def arguments(self) -> dict[str, Any]:
        """Arguments of `echo` that show whether types survive."""
        return {"word": "wörd \"'\\ <&>", "number": 7, "yes": True, "list": [1, "b"], "deep": {"a": None}}

    def echoed(self, body: bytes) -> Any:
        """Return the arguments in the response of `echo`."""
        return orjson.loads(body)

    def placed(self, place: str, value: str) -> WireCredential:
        """A credential at one of `places`."""
        if place.startswith("/"):
            return WireCredential("field", place, Secret(value), "default")
        return WireCredential(place, "X-Canary", Secret(value), "default")  # type: ignore[arg-type]

    def found(self, seen: dict[str, str], place: str) -> str | None:
        """The value of that credential in what the upstream saw."""
        if place == "cookie":
            return seen.get("cookie", "").partition("X-Canary=")[2] or None
        return seen.get("x-canary" if place == "header" else f"{place}:x-canary")


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    """A port of loopback at which nobody listens."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

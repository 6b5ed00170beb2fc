"""The contract of a protocol: what goes into a call and what comes out, whatever is spoken to the upstream.

An adapter raises only InvalidArguments, BlockedAddress, UpstreamTimeout, UpstreamUnreachable,
UpstreamUnauthorized, UpstreamRejected, UpstreamMalformed and ResponseTooLarge; `prepare` raises InvalidInput.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

from app.outbound.credentials import WireCredential
from app.outbound.egress import EgressSettings
from app.outbound.limits import Limits

Target = TypeVar("Target")

__all__ = ["Adapter", "Call", "Discovered", "Limits", "Result"]


@dataclass(slots=True)
class Call:  # made at each call; a frozen one costs twice as much
    """One call. `target` is what `prepare` of the same adapter gave; `arguments` are validated already.

    `deadline` is a `loop.time()`. `headers` are added to the request unless the tool or a credential has
    them.
    """

    target: Any
    arguments: dict[str, Any]
    credentials: tuple[WireCredential, ...]
    deadline: float
    limits: Limits
    call_id: str
    headers: tuple[tuple[str, str], ...] = ()
    egress: EgressSettings | None = None


@dataclass(slots=True)
class Result:
    """A successful answer: `body` when it was there already, else `stream`, which must be read or closed.

    `headers` are those that may be passed on to the caller; `media_type` is the whole Content-Type, "" where
    there is none. The stream raises what a call raises.
    """

    status: int
    headers: list[tuple[str, str]]
    media_type: str
    body: bytes | None
    stream: AsyncIterator[bytes] | None = None
    _close: Callable[[], None] | None = field(default=None, repr=False)

    async def read(self) -> bytes:
        """The whole body, within the limit that the call had."""
        if self.stream is not None:
            self.body = b"".join([piece async for piece in self.stream])
            self.stream = None
        return self.body or b""

    async def begin(self, most: int) -> tuple[bytes, bool]:
        """The whole body and True, or a beginning of more than `most` bytes and False.

        What is left then is read by `iterate`.
        """
        if self.stream is None:
            return self.body or b"", True
        pieces: list[bytes] = []
        size = 0
        async for piece in self.stream:
            pieces.append(piece)
            size += len(piece)
            if size > most:
                return b"".join(pieces), False
        self.stream = None
        return b"".join(pieces), True

    async def iterate(self) -> AsyncIterator[bytes]:
        """The body in pieces, whichever way it came."""
        if self.stream is None:
            if self.body:
                yield self.body
            return
        try:
            async for piece in self.stream:
                yield piece
        finally:
            await self.aclose()

    def close_with(self, close: Callable[[], None]) -> None:
        """Set what `aclose` does."""
        self._close = close

    async def aclose(self) -> None:
        """Let go of the connection; an unread stream is cut off at once. May be called again."""
        if self._close is not None:
            self._close()


@dataclass(frozen=True, slots=True)
class Discovered:
    """The bytes that a discovery found, their media type and the URL that they came from."""

    raw: bytes
    media_type: str
    url: str


class Adapter(Protocol[Target]):
    """One protocol. Adding one = one file here and one word in `registry.py`."""

    name: ClassVar[str]
    """The `call_template_type` that this adapter speaks."""

    def prepare(self, template: Mapping[str, Any]) -> Target:
        """Compile a stored call template, once; raises InvalidInput with pointers into it."""

    def origin(self, target: Target) -> str:
        """Where calls go, as `scheme://host[:port]`: what credentials are allowed for."""

    def safe(self, target: Target) -> bool:
        """Whether calls have no effects (RFC 9110 section 9.2.1), so that one may be sent again."""

    async def discover(self, call: Call) -> Discovered:
        """What the upstream publishes about itself; `limits.response_bytes` bounds it."""

    async def call(self, call: Call) -> Result:
        """Call the tool. Cancelling it, or closing the result, ends the upstream's work at once."""

    def stream(self, call: Call) -> AsyncIterator[bytes]:
        """Call the tool, and give its answer in pieces."""

    def describe(self, call: Call) -> dict[str, Any]:
        """The exact request that `call` would send, secrets as `***`: `method`, `url`, `headers`, `body`."""

    async def aclose(self) -> None:
        """Let go of what the adapter holds; the engine is not its own."""

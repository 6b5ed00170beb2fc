"""The contract of a protocol: what goes into a call and what comes out, whatever is spoken to the upstream.

An adapter raises only InvalidArguments, BlockedAddress, UpstreamTimeout, UpstreamUnreachable,
UpstreamUnauthorized, UpstreamRejected, UpstreamMalformed and ResponseTooLarge; `prepare` raises InvalidInput.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from app.outbound.credentials import WireCredential
from app.outbound.egress import EgressSettings
from app.outbound.framing import StreamEvent
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.outbound.network import Network
from app.security.masking import Masker
from app.security.response_masking import ResponseMasker
from app.settings import Settings

Target = TypeVar("Target")

__all__ = ["Adapter", "AdapterContext", "Call", "Discovered", "Limits", "Result", "StreamEvent"]

MASKED_HEADER: Final = "X-Masked"
"""Says which parts of a response had a secret in them that was masked: `body`, `headers`, or both."""
BODY_METADATA_HEADERS: Final = frozenset(
    {"etag", "content-length", "content-range", "digest", "content-digest", "repr-digest", "content-md5"}
)
"""Headers about the very bytes of a body, in lower case: a body that was masked has none of them."""


@dataclass(slots=True)
class Call:  # made at each call; a frozen one costs twice as much
    """One call. `target` is what `prepare` of the same adapter gave; `arguments` are validated already.

    `deadline` is a `loop.time()`. `headers` are added to the request unless the tool or a credential has
    them. `ends` is set where the client takes the response as events: the `loop.time()` until which they may
    come, while `deadline` holds until the first sign of the upstream.

    `scope` is what `outbound.scope.connection_scope` gives: calls of one scope may share connections and
    sessions, and with `reuse` False each has a connection of its own. `resend` allows a safe request to be
    sent a second time, once, where a reused connection turns out to be closed; `resent` says afterwards that
    it was.
    """

    target: Any
    arguments: dict[str, Any]
    credentials: tuple[WireCredential, ...]
    deadline: float
    limits: Limits
    call_id: str
    headers: tuple[tuple[str, str], ...] = ()
    egress: EgressSettings | None = None
    stream_deadline: float | None = None
    scope: bytes = b""
    reuse: bool = True
    resend: bool = True
    resent: bool = False
    has_large_arguments: bool = False
    """Whether the arguments take so long to encode that it is done beside the loop."""
    masker: ResponseMasker | None = field(default=None, repr=False)
    """Masks the call's secrets in what the upstream responds; None where there is nothing to be masked."""


@dataclass(slots=True)
class Result:
    """A successful response: `body` where it has arrived, else `stream`, which must be read or closed.

    `headers` are those that may be passed on to the client; `media_type` is the whole Content-Type, "" where
    there is none. The stream raises what a call raises.

    Where the call has `ends`, the response is in `events`, too, however the protocol sends it; they raise
    what a call raises. Either they are taken or the body is.
    """

    status: int
    headers: list[tuple[str, str]]
    media_type: str
    body: bytes | None
    stream: AsyncIterator[bytes] | None = None
    events: AsyncGenerator[StreamEvent, None] | None = None
    upstream_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All headers of the response, for caches only: most of them must not be passed on."""
    has_text_pieces: bool = False
    """Whether events of kind `text` are pieces of one text, cut wherever they arrived."""
    is_masked: bool = False
    """Whether a secret of the call was masked in what has been read of it so far."""
    _close: Callable[[], None] | None = field(default=None, repr=False)

    async def read(self) -> bytes:
        """Return the whole body, within the limit of the call."""
        if self.stream is not None:
            self.body = b"".join([piece async for piece in self.stream])
            self.stream = None
        return self.body or b""

    async def read_beginning(self, max_bytes: int) -> tuple[bytes, bool]:
        """Return the whole body and True, or a beginning of more than `max_bytes` bytes and False.

        What is left then is read by `iterate`.
        """
        if self.stream is None:
            return self.body or b"", True
        pieces: list[bytes] = []
        size = 0
        async for piece in self.stream:
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                return b"".join(pieces), False
        self.stream = None
        return b"".join(pieces), True

    async def read_up_to(self, max_bytes: int) -> bool:
        """Return whether the body has at most `max_bytes` bytes.

        If so, it is in `body` afterwards; otherwise it is still to be read, from its first byte.
        """
        if self.stream is None:
            return len(self.body or b"") <= max_bytes
        beginning, complete = await self.read_beginning(max_bytes)
        if complete:
            self.body = beginning
        elif self.stream is not None:
            self.stream = _chain(beginning, self.stream)
        return complete

    async def iterate(self) -> AsyncIterator[bytes]:
        """Yield the body in pieces, whichever way it came."""
        if self.stream is None:
            if self.body:
                yield self.body
            return
        try:
            async for piece in self.stream:
                yield piece
        finally:
            await self.aclose()

    @property
    def is_content_coded(self) -> bool:
        """Whether the body is in a content coding, which `headers` name."""
        return any(name == "Content-Encoding" for name, _ in self.headers)

    def close_with(self, close: Callable[[], None]) -> None:
        """Set what `aclose` does."""
        self._close = close

    async def aclose(self) -> None:
        """Release the connection; an unread stream ends at once. May be called again."""
        if self._close is not None:
            self._close()


async def _chain(beginning: bytes, remaining: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield beginning
    async for piece in remaining:
        yield piece


@dataclass(frozen=True, slots=True)
class Discovered:
    """The bytes that a discovery found, their media type and the URL that they came from.

    `made`: it is a manual that the adapter made of what the upstream says of itself. The call templates of
    its tools hold only what they add to the template that was discovered with.
    """

    raw: bytes
    media_type: str
    url: str
    is_generated: bool = False


@dataclass(frozen=True, slots=True)
class AdapterContext:
    """What adapters are made of: the ways out, the masker of secrets in logs and errors, the settings."""

    engine: Engine
    network: Network
    masker: Masker
    settings: Settings


class Adapter(Protocol[Target]):
    """What speaks one protocol. Its record (`protocols/record.py`) says where it is.

    `target` is always what `prepare` of the same adapter returned.
    """

    @property
    def name(self) -> str:
        """The `call_template_type` that this adapter speaks."""

    def prepare(self, template: Mapping[str, Any]) -> Target:
        """Compile a stored call template, once; raise InvalidInput with JSON pointers into it."""

    def origin(self, target: Target) -> str:
        """Return where calls go, as `scheme://host[:port]`: what credentials are allowed for."""

    def is_safe(self, target: Target) -> bool:
        """Return whether calls have no effects (RFC 9110 section 9.2.1), so that one may be retried."""

    def is_idempotent(self, target: Target) -> bool:
        """Return whether two equal calls have the effect of one (RFC 9110 section 9.2.2); safe ones do."""

    def request_identity(self, call: Call) -> bytes | None:
        """Return the request but for credentials, equal for equal requests only; None where a response must
        not be used for another call.
        """

    def method(self, target: Target) -> str:
        """Return what a call does, in one word of the protocol's own, e.g. HTTP's method: for traces."""

    async def discover(self, call: Call) -> Discovered:
        """Fetch what the upstream publishes about itself; `limits.response_bytes` bounds it."""

    async def call(self, call: Call) -> Result:
        """Call the tool. Cancelling the call, or closing the result, ends the upstream's work at once.

        Return when the upstream has shown that it accepts the call. A protocol that streams gives what comes
        after that as `events` where the call has `ends`, else collected within its limits.
        """

    def describe(self, call: Call) -> dict[str, Any]:
        """Return the exact request that `call` would send, secrets as `***`: `method`, `url`, `headers` and
        `body`.
        """

    async def aclose(self) -> None:
        """Release what the adapter holds; the engine is not its own."""

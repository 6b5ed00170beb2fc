"""The interface of protocol adapters: calls and their results, independent of the protocol.

An adapter raises only InvalidArguments, BlockedAddress, UpstreamTimeout, UpstreamUnreachable,
UpstreamUnauthorized, UpstreamRejected (of a discovery also Redirected), UpstreamMalformed and
ResponseTooLarge; `prepare` raises InvalidInput.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar
from uuid import UUID

from app.core.errors import UpstreamErrorResponse, UpstreamRejected
from app.core.settings import Settings
from app.formats.ubp.model import Command, CommandResult, Event
from app.outbound.credentials import WireCredential
from app.outbound.egress import EgressSettings
from app.outbound.framing import StreamEvent
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.outbound.network import Network
from app.protocols.command_routing import CommandRouter
from app.protocols.requests.templates import ResponseSpec
from app.security.masking import Masker
from app.security.response_masking import ResponseMasker
from app.storage.models.base import TENANT

Target = TypeVar("Target")
"""The compiled form of a call template; each adapter has its own type."""

__all__ = [
    "Adapter",
    "AdapterContext",
    "Call",
    "Discovered",
    "Limits",
    "ProgressListener",
    "Redirected",
    "Result",
    "StreamEvent",
]

MASKED_HEADER: Final = "X-Masked"
"""Says which parts of a response had a secret in them that was masked: `body`, `headers`, or both."""
ProgressListener = Callable[[float, float | None, str | None], None]
"""Gets each report of the progress of a call: how far it is, the value at its end where that is known, and a
text for people. It returns at once and raises nothing, so that it can be called wherever a report arrives.
"""
BODY_METADATA_HEADERS: Final = frozenset(
    {"etag", "content-length", "content-range", "digest", "content-digest", "repr-digest", "content-md5"}
)
"""Headers about the very bytes of a body, in lower case: a body that was masked has none of them."""


@dataclass(slots=True)
class Call(Generic[Target]):  # made at each call; a frozen one costs twice as much
    """One call. `target` is what `prepare` of the same adapter returned; `arguments` have been validated.

    `deadline` is a `loop.time()`. `headers` are added to the request unless the tool or a credential sets
    them. `stream_deadline` is set where the client takes the response as events: the `loop.time()` at which
    the stream must have ended, while `deadline` then applies to the begin of the response only.

    `scope` is what `outbound.scope.connection_scope` returns: calls of one scope may share connections and
    sessions; with `reuse` False each call has a connection of its own. `resend` allows a safe request to be
    sent once more where a reused connection turns out to be closed; `resent` is True afterwards if it was.
    """

    target: Target
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
    """Whether the arguments are so large that they are encoded in a thread."""
    masker: ResponseMasker | None = field(default=None, repr=False)
    """Masks the secrets of the call in the response; None where there is nothing to mask."""
    tenant_id: UUID = TENANT
    """The tenant of the principal that makes the call."""
    provider: str = ""
    """The name of the tool's provider: a template cannot name the executor of another one."""
    command: Command | None = field(default=None, repr=False)
    """The command of UBP that the call was made by, where it is to be forwarded as it is."""
    on_progress: ProgressListener | None = None
    """Gets reports of progress while the call runs; None where nobody reads them. It masks their texts."""
    on_command_event: Callable[[Event], None] | None = field(default=None, repr=False)
    """Called with each event that an executor sends while it executes the command."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How a program ended: its exit code, the end of its error output as text, secrets masked.

    `parsed` is what the program that parses its output has written, as a JSON value; None without one.
    """

    exit_code: int
    stderr: str = field(repr=False)
    parsed: Any = field(default=None, repr=False)


@dataclass(slots=True)
class Result:
    """A successful response: `body` where it has arrived, else `stream`, which must be read or closed.

    `headers` are those that may be passed on to the client; `media_type` is the whole Content-Type, "" where
    there is none. The stream raises what a call raises.

    Where the call has a `stream_deadline`, `events` is the same response as events, whatever the protocol;
    they raise what a call raises. Read either the events or the body, not both.
    """

    status: int
    headers: list[tuple[str, str]]
    media_type: str
    body: bytes | None
    stream: AsyncIterator[bytes] | None = None
    events: AsyncGenerator[StreamEvent, None] | None = None
    upstream_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All headers of the response, for caching rules only: most of them must not be passed on."""
    url: str | None = field(default=None, repr=False)
    """The URL to which redirects have led, without credentials; None where there was none."""
    has_text_pieces: bool = False
    """Whether events of kind `text` are pieces of one text, split at arbitrary points."""
    is_masked: bool = False
    """Whether a secret of the call was masked in the part that has been read so far."""
    has_content_blocks: bool = False
    """Whether the body (of events: the last one) is a block of MCP, or a list of them."""
    command_result: CommandResult | None = field(default=None, repr=False)
    """The response of UBP that the body was made of."""
    execution: Execution | None = field(default=None, repr=False)
    """How the program of a ToolClad manifest ended."""
    _close: Callable[[], None] | None = field(default=None, repr=False)

    async def read(self) -> bytes:
        """Return the whole body; raise ResponseTooLarge above the limit of the call."""
        if self.stream is not None:
            self.body = b"".join([piece async for piece in self.stream])
            self.stream = None
        return self.body or b""

    async def read_beginning(self, max_bytes: int) -> tuple[bytes, bool]:
        """Return the whole body and True, or a beginning of more than `max_bytes` bytes and False.

        In the second case `iterate` yields the remaining bytes.
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
        """Yield the body in pieces, from `body` or `stream`; close the result at the end."""
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
        """Whether the body is still in a content coding, which `headers` name (RFC 9110 section 8.4)."""
        return any(name == "Content-Encoding" for name, _ in self.headers)

    def close_with(self, close: Callable[[], None]) -> None:
        """Set the function that `aclose` calls."""
        self._close = close

    async def aclose(self) -> None:
        """Release the connection; an unread stream ends at once. Idempotent."""
        if self._close is not None:
            self._close()


async def _chain(beginning: bytes, remaining: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield beginning
    async for piece in remaining:
        yield piece


@dataclass(frozen=True, slots=True)
class Discovered:
    """The bytes that a discovery fetched, their media type and the URL that they came from. `language` is
    the value of `Content-Language`, "" where there is none.

    `is_redirected`: `url` is the address of the last of several redirects, without its query, which may hold
    a signature. `is_generated`: they are a manual that the adapter generated from the upstream's
    introspection. The call templates of its tools have only the members that they add to the template of the
    discovery.
    """

    raw: bytes
    media_type: str
    url: str
    is_generated: bool = False
    language: str = ""
    is_redirected: bool = False


class Redirected(UpstreamRejected):
    """A redirect in response to a discovery.

    `method` and `url` are those of the request, `location` is the header of the response as it came: it may
    hold secrets, and is no valid URL for sure.
    """

    def __init__(
        self, detail: str, *, response: UpstreamErrorResponse, method: str, url: str, location: str
    ) -> None:
        super().__init__(detail, response=response)
        self.method, self.url, self.location = method, url, location


@dataclass(frozen=True, slots=True)
class AdapterContext:
    """The dependencies of adapters: HTTP engine, network, masker of secrets in errors, settings, router of
    commands for connected executors.
    """

    engine: Engine
    network: Network
    masker: Masker
    settings: Settings
    commands: CommandRouter = field(default_factory=CommandRouter)


class Adapter(Protocol[Target]):
    """The client of one protocol. Its record (`protocols/record.py`) names its class.

    `target` is always what `prepare` of the same adapter returned. The arguments of a call are what orjson
    reads; those of an adapter with a true attribute `keeps_digits` have a `decimal.Decimal` (`exact_json`) in
    place of each number that a double would alter.
    """

    @property
    def name(self) -> str:
        """The `call_template_type` that this adapter speaks."""

    def prepare(self, template: Mapping[str, Any]) -> Target:
        """Return the compiled form of a stored call template; raise InvalidInput with pointers into it."""

    def origin(self, target: Target) -> str:
        """Return the origin that calls go to, `scheme://host[:port]`: credentials are allowed by origin."""

    def is_safe(self, target: Target) -> bool:
        """Return whether calls have no side effects (RFC 9110 section 9.2.1).

        They may be retried, unless the adapter is one that `SendsOnce`.
        """

    def is_idempotent(self, target: Target) -> bool:
        """Return whether equal calls have the same effect as one (RFC 9110 section 9.2.2); True if safe."""

    def request_identity(self, call: Call[Target]) -> bytes | None:
        """Return a cache key of the request without its credentials, equal for equal requests only.

        Return None where a response must not be reused for another call.
        """

    def method(self, target: Target) -> str:
        """Return the kind of operation in the protocol's own term, e.g. the HTTP method: for traces."""

    async def discover(self, call: Call[Target]) -> Discovered:
        """Return the document that the upstream publishes, of at most `limits.response_bytes` bytes.

        Raise what `call` raises.
        """

    async def call(self, call: Call[Target]) -> Result:
        """Call the tool and return its result as soon as the upstream has accepted the call.

        Cancelling the call, or closing the result, ends the request at once. A protocol that streams returns
        `events` where the call has a `stream_deadline`, else it collects the stream within the call's limits.
        """

    def describe(self, call: Call[Target]) -> dict[str, Any]:
        """Return the request that `call` would send as `method`, `url`, `headers` and `body`.

        Secrets are masked as `***`; nothing is sent. A body that is too large is a `LargeBody`.
        """

    async def aclose(self) -> None:
        """Close the adapter's own connections; those of the engine are closed by its owner."""


class LargeBody(dict[str, int]):
    """`{"bytes": size}` in place of a body that is too large to be described: no argument is of this type."""


class PassesOwnSecrets(ABC):
    """An adapter that passes secrets to its upstream which are no credentials of the call."""

    @abstractmethod
    def own_secrets(self, target: Any) -> tuple[str, ...]:
        """Return these secrets of a compiled target, to be masked in responses."""


class SendsOnce(ABC):
    """An adapter of which some calls may not be repeated, whatever they change."""

    @abstractmethod
    def is_sent_once(self, target: Any) -> bool:
        """Return whether a call is sent again only where nothing of it was sent.

        So it is where a repetition would cost the upstream as much as the call itself, and where no
        idempotency key reaches the upstream.
        """


class DescribesResponses(ABC):
    """An adapter whose call templates say how responses are decoded."""

    @abstractmethod
    def response_spec(self, target: Any) -> ResponseSpec | None:
        """Return what the template of a compiled target says of responses; None where it says nothing."""


class GivesEvidence(ABC):
    """An adapter that calls tools of ToolClad manifests."""

    @abstractmethod
    def evidence(self, call: Call[Any]) -> dict[str, Any]:
        """Return the member `command` of the call's evidence, and those of the protocol; secrets masked."""


class FollowsLinks(ABC):
    """An adapter whose responses have links to further ones: pages of a list, the state of an operation."""

    @abstractmethod
    def resolve_link(self, call: Call[Any], link: str, base: str | None) -> str | None:
        """Return the URL of a link in a response to `base`, or to the call where it is None.

        None for a link that is no URL, or whose origin is not that of the tool: no credential is sent there.
        """

    @abstractmethod
    async def follow(self, call: Call[Any], url: str) -> Result:
        """Send a GET of a URL of `resolve_link`, with the call's credentials; raise what `call` raises."""


class ChecksUpstream(ABC):
    """An adapter that can find out, without calling a tool, whether its upstream speaks the protocol."""

    @abstractmethod
    async def check(self, call: Call[Any]) -> None:
        """Exchange the smallest message of the protocol with the upstream, with the call's credentials.

        The call has no arguments. Raise what `Adapter.call` raises.
        """

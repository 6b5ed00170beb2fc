"""What `execute` hands to a store of recordings, and gets from it: a request, and what an upstream gave.

One result of a call is one interaction: after retries, with all pages of a list, secrets masked, before it is
decoded or validated. How often a request was sent, and how long that took, is no part of what an agent sees.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from app.catalog.plan import Plan
from app.core.errors import GatewayError, NotFound
from app.outbound.framing import StreamEvent


@dataclass(frozen=True, slots=True)
class RecordableRequest:
    """A request of a tool: `arguments` are complete, with those that a toolset has set at the JSON pointers
    `presets`. `run` identifies the run of replays.
    """

    recording: str
    plan: Plan
    arguments: Any = field(repr=False)
    presets: tuple[str, ...] = ()
    run: str = ""


@dataclass(frozen=True, slots=True)
class RecordedError:
    """An error that an upstream caused: its slug, what it says, and the upstream's response, if any."""

    slug: str
    detail: str
    request_sent: bool = True
    status: int | None = None
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedResponse:
    """What an upstream gave: a `body`, `events`, or an `error`; events may end with an error.

    `is_cut` says that only the first events were recorded. `text_pieces` and `content_blocks` are the members
    `has_text_pieces` and `has_content_blocks` of `protocols.base.Result`.
    """

    status: int = 0
    media_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = field(default=None, repr=False)
    events: tuple[StreamEvent, ...] | None = field(default=None, repr=False)
    error: RecordedError | None = None
    is_cut: bool = False
    text_pieces: bool = False
    content_blocks: bool = False

    @property
    def kind(self) -> str:
        """body, events or error."""
        if self.events is not None:
            return "events"
        return "body" if self.error is None else "error"

    @property
    def size(self) -> int:
        """The length of what was received, in bytes."""
        if self.events is not None:
            return sum(len(event.data) for event in self.events)
        return len(self.body or b"")


@dataclass(frozen=True, slots=True)
class Replay:
    """A recorded response, and a warning where the tool has changed since, "" without one."""

    response: RecordedResponse
    warning: str = ""


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    """Limits of one interaction: bytes of a body or of all events, and number of events."""

    body_bytes: int
    events: int


class CallRecordings(Protocol):
    """Stores and finds interactions."""

    @property
    def limits(self) -> RecordingLimits:
        """The limits of what `record` takes."""

    async def require(self, name: str) -> None:
        """Raise RecordingNotFound where there is no recording of this name; Unavailable."""

    async def record(self, request: RecordableRequest, response: RecordedResponse) -> str:
        """Store an interaction, secrets masked, and return `stored`, or `full` where the recording is; raise
        RecordingNotFound and Unavailable.
        """

    async def omit(self, request: RecordableRequest) -> None:
        """Count an interaction that cannot be stored, because its response is too large. Raises nothing."""

    async def replay(self, request: RecordableRequest) -> Replay:
        """Return the next recorded response to an equal request of the run.

        Raise RecordingNotFound, NotRecorded, RecordingOutdated and Unavailable.
        """

    def finish(self, request: RecordableRequest, response: RecordedResponse) -> None:
        """Store an interaction in the background: that of a stream whose client has left."""


class NoCallRecordings:
    """Has no recordings: calls in modes that need one fail."""

    limits = RecordingLimits(0, 0)

    async def require(self, name: str) -> None:
        """See `CallRecordings`."""
        raise _create_not_found_error(name)

    async def record(self, request: RecordableRequest, response: RecordedResponse) -> str:  # noqa: ARG002
        """See `CallRecordings`."""
        raise _create_not_found_error(request.recording)

    async def omit(self, request: RecordableRequest) -> None:
        """See `CallRecordings`."""

    async def replay(self, request: RecordableRequest) -> Replay:
        """See `CallRecordings`."""
        raise _create_not_found_error(request.recording)

    def finish(self, request: RecordableRequest, response: RecordedResponse) -> None:
        """See `CallRecordings`."""


def _create_not_found_error(name: str) -> GatewayError:
    return NotFound(f"There is no recording {name}.")

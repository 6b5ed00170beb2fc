"""Server-sent events, read from bytes as they arrive."""

from dataclasses import dataclass
from typing import Final

_MAX_EVENT_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class RawEvent:
    """An event as it was sent; `event` and `id` are empty where it has none."""

    event: str
    id: str
    data: str


class EventReader:
    """Parses `text/event-stream` (HTML standard, section 9.2.6); lines end with LF or CRLF."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._event = self._id = ""
        self._data: list[str] = []

    def feed(self, part: bytes) -> list[RawEvent]:
        """Return the events that `part` completes; raise ValueError where one has more than 64 MiB."""
        self._buffer += part
        *lines, rest = bytes(self._buffer).split(b"\n")
        if len(rest) > _MAX_EVENT_BYTES:
            raise ValueError("An event is larger than 64 MiB.")
        self._buffer = bytearray(rest)
        events = []
        for line in lines:
            event = self._line(line.removesuffix(b"\r").decode("utf-8", "replace"))
            if event is not None:
                events.append(event)
        return events

    def _line(self, line: str) -> RawEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id":
            self._id = value
        return None

    def _dispatch(self) -> RawEvent | None:
        found = RawEvent(self._event, self._id, "\n".join(self._data)) if self._data else None
        self._event = ""
        self._data = []
        return found

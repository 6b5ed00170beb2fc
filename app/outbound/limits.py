"""The time and size limits of a call to an upstream."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one call. Times are in seconds, from the start of the call unless said otherwise.

    `connect`: until a connection is established, including the wait for a free one. `first_byte`: until the
    headers of the response are complete, including connecting. `idle`: between two pieces of the body.
    `total`: until the end of the body. `stream`: the same where the client reads the response as events;
    `total` then applies until its headers are complete. `response_bytes`: decoded bytes of the body.
    `event_bytes`: decoded bytes of one event.
    """

    connect: float = 5.0
    first_byte: float = 30.0
    total: float = 60.0
    idle: float = 30.0
    response_bytes: int = 64 * 1024 * 1024
    stream: float = 3600.0
    event_bytes: int = 1024 * 1024

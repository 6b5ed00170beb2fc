"""How long and how much an upstream may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The patience with one call. Times in seconds, counted from the start of the call unless said otherwise.

    `connect`: until a connection is there, the wait for a free one included. `first_byte`: until the headers
    of the answer are complete, the connecting included. `idle`: between two pieces of the body. `total`:
    until the end of the body. `stream`: the same where the caller takes the answer as events; `total` then
    holds until its headers are complete. `response_bytes`: decoded bytes of the body. `event_bytes`: of one
    event of it.
    """

    connect: float = 5.0
    first_byte: float = 30.0
    total: float = 60.0
    idle: float = 30.0
    response_bytes: int = 64 * 1024 * 1024
    stream: float = 3600.0
    event_bytes: int = 1024 * 1024

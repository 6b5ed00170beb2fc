"""Settings of the HTTP server: sizes, timeouts and numbers of requests and connections of clients."""

from pydantic import Field
from pydantic_settings import BaseSettings


class HttpServerSettings(BaseSettings, defer_build=True):
    """Settings of the HTTP server. Times are in seconds, sizes in bytes; numbers are per worker."""

    # Connections of clients
    max_head_bytes: int = Field(
        64 << 10,
        ge=4 << 10,
        le=64 << 10,
        description="Line and headers of one request (414, 431), and its chunk framing with trailers (400).",
    )
    max_header_fields: int = Field(128, ge=16, le=1000, description="Number of header fields of a request.")
    head_timeout: float = Field(
        10, gt=0, le=300, description="Time for a request's head, from its first byte to its last (408)."
    )
    keep_alive_timeout: float = Field(
        75, gt=0, le=3600, description="How long a connection without a request is held open."
    )
    max_connections: int = Field(
        4096, ge=16, le=1_000_000, description="Connections per worker; at most half of its file descriptors."
    )
    max_connections_per_address: int = Field(
        1024,
        ge=1,
        le=1_000_000,
        description="Connections per worker from one client address (IPv6: /64), and concurrent requests"
        " of one address for which a proxy of FORWARDED_ALLOW_IPS forwards (429).",
    )
    max_pipelined_requests: int = Field(
        16, ge=1, le=1000, description="Requests of a connection that may wait for the response to another."
    )
    max_argument_values: int = Field(
        400_000,
        ge=1000,
        description="Values in a call's arguments (413); a list or an object counts as 5, a member as 7.",
    )
    tool_calls_parallel: int = Field(
        8, ge=1, le=64, description="Calls of one request to /tool-calls that run at a time."
    )

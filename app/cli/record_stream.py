"""`calls tail`: the server-sent events of a stream of records, continued when the connection is lost."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from app.cli.errors import GatewayUnreachable, ProblemResponse

if TYPE_CHECKING:
    from app.cli.client import GatewayClient

_RECONNECT_SECONDS = 1.0
#: Records of the last seconds may come again after a reconnection.
_REMEMBERED = 10_000
#: The stream ended for a reason that does not last: a shutdown, or a client that was too slow.
_TEMPORARY = 503


def follow(
    gateway: "GatewayClient", path: str, *, query: Mapping[str, Any], note: Callable[[str], None]
) -> Iterator[Any]:
    """Yield the records of a stream without end, each once; `note` is told of reconnections.

    Raise ProblemResponse where the gateway ends the stream for good, and GatewayUnreachable where there is no
    first connection.
    """
    recent: dict[str, None] = {}
    last: str | None = None
    is_connected = False
    while True:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        try:
            with gateway.stream("GET", path, query=query, headers=headers) as response:
                is_connected = True
                for last, record in _read_records(response.iter_bytes()):
                    if last not in recent:
                        recent[last] = None
                        yield record
                    if len(recent) > _REMEMBERED:
                        del recent[next(iter(recent))]
        except (GatewayUnreachable, ProblemResponse) as error:
            if not is_connected or (isinstance(error, ProblemResponse) and error.status != _TEMPORARY):
                raise
        note("The stream has ended; connecting again.")
        time.sleep(_RECONNECT_SECONDS)


def _read_records(chunks: Iterator[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the id and the record of each event; raise ProblemResponse for the last one."""
    for fields in _read_events(chunks):
        try:
            value = orjson.loads(fields["data"])
        except orjson.JSONDecodeError:
            raise GatewayUnreachable("The stream has data that is not JSON: is this a gateway?") from None
        if fields["event"] == "gateway-error":
            raise ProblemResponse(value, status=int(value.get("status", 0)))
        yield fields["id"], value


def _read_events(chunks: Iterator[bytes]) -> Iterator[dict[str, str]]:
    """Yield the fields of each event that has data; comments are heartbeats."""
    fields: dict[str, str] = {"event": "message", "id": ""}
    pending = b""
    for chunk in chunks:
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.decode().removesuffix("\r").partition(":")
            if name:
                fields[name] = value.removeprefix(" ")
            elif not value and "data" in fields:
                yield fields
                fields = {"event": "message", "id": ""}

"""gRPC calls of raw messages over a leased channel."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Literal

import grpc
import grpc.aio

from app.core.deadlines import Deadline, get_timer_queue
from app.core.errors import UpstreamTimeout
from app.protocols.grpc.channels import Lease

__all__ = ["RpcFailed", "RpcStream", "unary"]

Metadata = Sequence[tuple[str, str]]

# How long an accepted call may take to be rejected after all: a rejection without messages has two parts.
_REJECTION_SECONDS: Final = 0.05
_DETAILS: Final = "grpc-status-details-bin"
_EARLY: Final = "Internal error from Core"
_BROKEN: Final = ("Stream removed", "failed to connect", "Socket closed", "GOAWAY", _EARLY)


class RpcFailed(Exception):
    """A call ended with a status other than OK.

    `code` is a google.rpc.Code, `status` a serialised google.rpc.Status where the upstream sent one, else
    b"". `cause` is `response` where the upstream sent the status, `large` for a message above our limit, and
    `broken` where the connection or the protocol failed.
    """

    def __init__(
        self, code: int, name: str, details: str, status: bytes, cause: Literal["response", "large", "broken"]
    ) -> None:
        super().__init__(name)
        self.code = code
        self.name = name
        self.details = details
        self.status = status
        self.cause = cause


async def unary(lease: Lease, path: str, message: bytes, *, metadata: Metadata, deadline: float) -> bytes:
    """Call a unary method and return its response, both serialised; raise RpcFailed.

    `deadline` is a `loop.time()`. Cancelling this cancels the call.
    """
    call = lease.channel.unary_unary(path)(message, metadata=metadata, timeout=_seconds_until(deadline))
    try:
        response: bytes = await call
    except grpc.aio.AioRpcError as error:
        raise _rpc_failed(error, lease) from None
    return response


class RpcStream:
    """A call with a stream of responses. It must be closed; `close` is idempotent.

    `messages` are all serialised messages to send; `deadline` is a `loop.time()`.
    """

    def __init__(
        self, lease: Lease, path: str, messages: Sequence[bytes], *, metadata: Metadata, deadline: float
    ) -> None:
        self._lease = lease
        # One message looks the same on the wire, and is sent at once: where an upstream rejects a call while
        # messages are still being sent, the library may lose its status.
        call = lease.channel.unary_stream(path) if len(messages) == 1 else lease.channel.stream_stream(path)
        sent = messages[0] if len(messages) == 1 else _iterate(messages)
        self._call = call(sent, metadata=metadata, timeout=_seconds_until(deadline))
        self._read_ahead: asyncio.Task[bytes | None] | None = None

    async def start(self, *, deadline: float) -> None:
        """Wait until the upstream has accepted the call; raise RpcFailed where it rejects it.

        Raise UpstreamTimeout at `deadline` (a `loop.time()`).
        """
        self._read_ahead = asyncio.create_task(self._read())
        self._read_ahead.add_done_callback(_retrieve_exception)
        try:
            with Deadline(get_timer_queue(), deadline):
                await self._call.initial_metadata()
                await asyncio.wait({self._read_ahead}, timeout=_REJECTION_SECONDS)
            if self._read_ahead.done():
                self._read_ahead.result()
        except TimeoutError:
            self.close()
            raise UpstreamTimeout("The upstream did not respond in time.") from None
        except grpc.aio.AioRpcError as error:
            failed = _rpc_failed(error, self._lease)
            self.close()
            raise failed from None
        except BaseException:
            self.close()
            raise

    async def read(self) -> bytes | None:
        """Return the next serialised message, None at the end; raise RpcFailed."""
        read_ahead, self._read_ahead = self._read_ahead, None
        return await (self._read() if read_ahead is None else read_ahead)

    def close(self) -> None:
        """Cancel the call, unless it has ended, and release the channel."""
        self._call.cancel()
        if self._read_ahead is not None:
            self._read_ahead.cancel()
        self._lease.release()

    async def _read(self) -> bytes | None:
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise _rpc_failed(error, self._lease) from None
        return None if message is grpc.aio.EOF else bytes(message)


async def _iterate(messages: Sequence[bytes]) -> Any:
    for message in messages:
        yield message


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _seconds_until(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())


def _rpc_failed(error: grpc.aio.AioRpcError, lease: Lease) -> RpcFailed:
    code = error.code()
    details = str(error.details() or "")
    status = next((value for key, value in error.trailing_metadata() or () if key == _DETAILS), b"")
    cause: Literal["response", "large", "broken"] = "response"
    # The library's own texts for a call that ended on our side.
    if details.startswith(_BROKEN):
        cause = "broken"
        if code is not grpc.StatusCode.RESOURCE_EXHAUSTED and not details.startswith(_EARLY):
            # A passed deadline may be the only sign of a dead connection.
            lease.mark_broken()
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "CLIENT: Received message larger" in details:
        cause = "large"
    if details.startswith(_EARLY):
        return RpcFailed(14, "UNAVAILABLE", details, b"", cause)
    return RpcFailed(int(code.value[0]), str(code.name), details, bytes(status), cause)

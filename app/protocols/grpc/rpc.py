"""gRPC calls of raw messages over a leased channel."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Literal

import grpc
import grpc.aio

from app.deadlines import Deadline, timer_queue
from app.errors import UpstreamTimeout
from app.protocols.grpc.channels import Lease

__all__ = ["RpcFailed", "RpcStream", "unary"]

Metadata = Sequence[tuple[str, str]]

# How long an accepted call may take to be refused after all: a refusal without messages comes in two parts.
_REJECTION_SECONDS: Final = 0.05
_DETAILS: Final = "grpc-status-details-bin"
_EARLY: Final = "Internal error from Core"
_BROKEN: Final = ("Stream removed", "failed to connect", "Socket closed", "GOAWAY", _EARLY)


class RpcFailed(Exception):
    """A call ended with another status than OK.

    `code` is a google.rpc.Code, `status` a serialised google.rpc.Status where the upstream sent one. `cause`:
    `response`, where the upstream says so itself; `large`, for a message above our limit; `broken`, where the
    connection or the protocol on it failed.
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
    """One message for one message; raises RpcFailed. A cancellation cancels the call."""
    call = lease.channel.unary_unary(path)(message, metadata=metadata, timeout=_seconds_until(deadline))
    try:
        response: bytes = await call
    except grpc.aio.AioRpcError as error:
        raise _rpc_failed(error, lease) from None
    return response


class RpcStream:
    """A call that is answered by messages. `close` it; that may be done again.

    `messages` are all that is sent. `start` comes back when the upstream has accepted the call.
    """

    def __init__(
        self, lease: Lease, path: str, messages: Sequence[bytes], *, metadata: Metadata, deadline: float
    ) -> None:
        self._lease = lease
        # One message looks the same on the wire, and is sent at once: where an upstream refuses a call while
        # messages are still being sent, the library may lose its status.
        call = lease.channel.unary_stream(path) if len(messages) == 1 else lease.channel.stream_stream(path)
        sent = messages[0] if len(messages) == 1 else _iterate(messages)
        self._call = call(sent, metadata=metadata, timeout=_seconds_until(deadline))
        self._read_ahead: asyncio.Task[bytes | None] | None = None

    async def start(self, *, deadline: float) -> None:
        """Raises RpcFailed where it is refused, and UpstreamTimeout."""
        self._read_ahead = asyncio.create_task(self._read())
        self._read_ahead.add_done_callback(_retrieve_exception)
        try:
            with Deadline(timer_queue(), deadline):
                await self._call.initial_metadata()
                await asyncio.wait({self._read_ahead}, timeout=_REJECTION_SECONDS)
            if self._read_ahead.done():
                self._read_ahead.result()
        except TimeoutError:
            self.close()
            raise UpstreamTimeout("The upstream did not answer in time.") from None
        except grpc.aio.AioRpcError as error:
            failed = _rpc_failed(error, self._lease)
            self.close()
            raise failed from None
        except BaseException:
            self.close()
            raise

    async def read(self) -> bytes | None:
        """The next message, None at the end; raises RpcFailed."""
        read_ahead, self._read_ahead = self._read_ahead, None
        return await (self._read() if read_ahead is None else read_ahead)

    def close(self) -> None:
        """Cancel the call, if it is not over, and let go of the channel."""
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
    # The library's own words for what ends a call at our side.
    if details.startswith(_BROKEN):
        cause = "broken"
        if code is not grpc.StatusCode.RESOURCE_EXHAUSTED and not details.startswith(_EARLY):
            # A deadline that has passed may be all that there is to see of a dead connection.
            lease.mark_broken()
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "CLIENT: Received message larger" in details:
        cause = "large"
    if details.startswith(_EARLY):
        return RpcFailed(14, "UNAVAILABLE", details, b"", cause)
    return RpcFailed(int(code.value[0]), str(code.name), details, bytes(status), cause)

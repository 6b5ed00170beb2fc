"""Data channels of WebRTC to peers whose every address the guard allows. Needs the library `aiortc`.

There is no STUN or TURN server: a peer is reached at its own addresses. Nothing is ever sent to an address
that the guard does not allow, whether a candidate of the answer or the source of a packet names it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from aioice.ice import get_host_addresses
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from app.protocols.extension import (
    BlockedAddress,
    Deadline,
    GatewayError,
    Network,
    ResponseTooLarge,
    UpstreamMalformed,
    UpstreamTimeout,
    UpstreamUnreachable,
    get_timer_queue,
)

MAX_MESSAGE_BYTES: Final = 4 << 20
"""Bytes of a message that a peer may send, as its library enforces, too (RFC 8841 section 6)."""

_WINDOW: Final = MAX_MESSAGE_BYTES + (1 << 20)
_MAX_UNSENT_BYTES: Final = 1 << 20
_MAX_CANDIDATES: Final = 64
_MAX_CHANNELS: Final = 8
_MAX_ADDRESSES: Final = 8
_MAX_SDP_LENGTH: Final = 64 << 10
_CLOSE_SECONDS: Final = 5.0
_ANY_PORT: Final = 49_152

for _name in ("aiortc", "aioice"):
    # They log what peers send; failures are raised as errors.
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)


class Peer:
    """A connection with one data channel, reliable and ordered. It must be closed; `close` is idempotent.

    `on_message` is called with each message, `on_lost` once where the connection ends other than by `close`.
    """

    def __init__(
        self,
        network: Network,
        *,
        label: str,
        on_message: Callable[[str | bytes], None],
        on_lost: Callable[[GatewayError], None],
    ) -> None:
        self._network = network
        self._on_message = on_message
        self._on_lost = on_lost
        self._unread_bytes = 0
        self._closing: asyncio.Task[None] | None = None
        self._drained = asyncio.Event()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._channels = 0
        self._channel = self._connection.createDataChannel(label)
        self._channel.bufferedAmountLowThreshold = _MAX_UNSENT_BYTES // 2
        self._channel.on("open", self._channel_opened)
        self._channel.on("message", on_message)
        self._channel.on("close", self._connection_lost)
        self._channel.on("bufferedamountlow", self._drained.set)
        self._connection.on("connectionstatechange", self._state_changed)
        self._connection.on("datachannel", self._peer_opened_channel)
        sctp: Any = self._connection.sctp
        self._sctp = sctp
        sctp._advertised_rwnd = _WINDOW  # noqa: SLF001 - the library has no option for it.
        self._receive_chunk = sctp._receive_data_chunk  # noqa: SLF001
        sctp._receive_data_chunk = self._receive_within_window  # noqa: SLF001

    async def offer(self) -> str:
        """Return the session description (RFC 8866), with all candidates."""
        ice: Any = self._sctp.transport.transport.iceGatherer._connection  # noqa: SLF001
        addresses = get_host_addresses(use_ipv4=True, use_ipv6=True)[:_MAX_ADDRESSES]
        if self._network.allows("127.0.0.1", _ANY_PORT):
            addresses.append("127.0.0.1")

        async def gather() -> None:
            ice._local_candidates_start = True  # noqa: SLF001
            found = await ice.get_component_candidates(component=1, addresses=addresses)
            for protocol in ice._protocols:  # noqa: SLF001
                protocol.transport = _GuardedTransport(protocol.transport, self._network)
            ice._local_candidates += found  # noqa: SLF001
            ice._local_candidates_end = True  # noqa: SLF001

        ice.gather_candidates = gather
        await self._connection.setLocalDescription(await self._connection.createOffer())
        lines = self._connection.localDescription.sdp.splitlines()
        lines_without_limit = [line for line in lines if not line.startswith("a=max-message-size:")]
        return "\r\n".join([*lines_without_limit, f"a=max-message-size:{MAX_MESSAGE_BYTES}", ""])

    async def accept(self, sdp: str, *, deadline: float) -> None:
        """Take the peer's answer, and wait until the channel is open.

        Raise BlockedAddress where none of its candidates may be contacted, UpstreamMalformed,
        UpstreamUnreachable and UpstreamTimeout, before anything was sent on the channel.
        """
        description = RTCSessionDescription(sdp=self._allowed_candidates(sdp), type="answer")
        try:
            with Deadline(get_timer_queue(), deadline):
                try:
                    await self._connection.setRemoteDescription(description)
                except Exception:  # noqa: BLE001 - the library's parser raises whatever a line makes it.
                    raise UpstreamMalformed(
                        "The peer's answer is not a session description.", request_sent=False
                    ) from None
                await self._opened
        except TimeoutError:
            raise UpstreamTimeout("No connection to the peer was made in time.", request_sent=False) from None

    @property
    def is_usable(self) -> bool:
        """Whether messages may be sent."""
        return self._closing is None and self._channel.readyState == "open"

    async def send(self, message: str, *, deadline: float) -> None:
        """Send a text. Raise UpstreamUnreachable, UpstreamTimeout, and ValueError for too long a one."""
        try:
            with Deadline(get_timer_queue(), deadline):
                while self.is_usable and self._channel.bufferedAmount > _MAX_UNSENT_BYTES:
                    self._drained.clear()
                    await self._drained.wait()
        except TimeoutError:
            raise UpstreamTimeout("The peer did not accept the call in time.", request_sent=False) from None
        self.send_text(message)

    def send_text(self, message: str) -> None:
        """Send a text without waiting for earlier ones; raise UpstreamUnreachable."""
        if not self.is_usable:
            raise UpstreamUnreachable("The connection to the peer is closed.", request_sent=False)
        self._channel.send(message)

    def add_unread(self, size: int) -> None:
        """Count bytes of messages that are not read yet, and shrink the peer's window by them."""
        self._unread_bytes += size
        self._sctp._advertised_rwnd -= size  # noqa: SLF001

    def remove_unread(self, size: int) -> None:
        """Count bytes of messages that have been read, and enlarge the peer's window by them."""
        self._unread_bytes -= size
        was_closed = self._sctp._advertised_rwnd <= 0  # noqa: SLF001
        self._sctp._advertised_rwnd += size  # noqa: SLF001
        if was_closed and self.is_usable:
            # Tell the peer at once that it may continue (RFC 9260 section 6.2).
            sending = asyncio.ensure_future(self._sctp._send_sack())  # noqa: SLF001
            sending.add_done_callback(_retrieve_exception)

    def close(self) -> "asyncio.Task[None]":
        """Close the data channel and its transports; return a task that ends when they are closed."""
        if self._closing is None:
            self._channel.remove_all_listeners()
            self._connection.remove_all_listeners()
            self._drained.set()
            self._opened.cancel()
            self._closing = asyncio.get_running_loop().create_task(self._close())
            self._closing.add_done_callback(_retrieve_exception)
        return self._closing

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._connection.close()
        except (TimeoutError, ConnectionError):
            pass

    def _allowed_candidates(self, sdp: str) -> str:
        """Return the answer without candidates that are names, TCP, or at addresses that are not allowed."""
        if len(sdp) > _MAX_SDP_LENGTH:
            raise UpstreamMalformed(
                f"The peer's answer has more than {_MAX_SDP_LENGTH} characters.", request_sent=False
            )
        lines: list[str] = []
        candidates = 0
        for line in sdp.splitlines():
            if line.startswith("a=candidate:"):
                if not self._is_allowed(line.split()) or candidates >= _MAX_CANDIDATES:
                    continue
                candidates += 1
            if line != "a=end-of-candidates":
                lines.append(line)
        if not candidates:
            raise BlockedAddress("The peer names no address that the gateway's network policy allows.")
        # Trickled candidates are not supported, whether the answer ends its candidates or not.
        return "\r\n".join([*lines, "a=end-of-candidates", ""])

    def _is_allowed(self, words: list[str]) -> bool:
        """Return whether a candidate may be used, which is given as the words of its line (RFC 8839, 5.1)."""
        if len(words) < 8 or words[2].lower() != "udp" or not words[5].isdecimal() or len(words[5]) > 5:
            return False
        return self._network.allows(words[4], int(words[5]))

    async def _receive_within_window(self, chunk: Any) -> None:
        """Drop data beyond the window, which the peer then retransmits (RFC 9260 section 6.2).

        Not every sender respects the window.
        """
        if self._sctp._advertised_rwnd <= 0:  # noqa: SLF001
            if self._unread_bytes <= 0:
                self._end_with(
                    ResponseTooLarge(f"A message of the peer has more than {MAX_MESSAGE_BYTES} bytes.")
                )
            self._sctp._sack_needed = True  # noqa: SLF001
            return
        await self._receive_chunk(chunk)

    def _channel_opened(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    def _state_changed(self) -> None:
        if self._connection.connectionState in ("failed", "closed"):
            self._connection_lost()

    def _peer_opened_channel(self, channel: Any) -> None:
        """Close a channel that the peer opens; end the connection where it opens too many."""
        self._channels += 1
        if self._channels > _MAX_CHANNELS:
            self._end_with(UpstreamMalformed("The peer opens too many channels."))
        else:
            channel.close()

    def _connection_lost(self) -> None:
        self._end_with(UpstreamUnreachable("The connection to the peer broke."))

    def _end_with(self, error: GatewayError) -> None:
        if self._closing is not None:
            return
        if not self._opened.done():
            self._opened.set_exception(
                UpstreamUnreachable("No connection to the peer could be made.", request_sent=False)
            )
            self._opened.add_done_callback(lambda opened: opened.exception())
        on_lost = self._on_lost
        self.close()
        on_lost(error)


class _GuardedTransport:
    """A socket of ICE that sends to addresses that the guard allows only."""

    def __init__(self, transport: asyncio.DatagramTransport, network: Network) -> None:
        self._transport = transport
        self._network = network
        self._decisions: dict[tuple[str, int], bool] = {}

    def sendto(self, data: bytes, addr: tuple[str, int]) -> None:
        """Send a packet, or drop it where its address is not allowed."""
        address = (addr[0], addr[1])
        allowed = self._decisions.get(address)
        if allowed is None:
            allowed = self._network.allows(*address)
            if len(self._decisions) < _MAX_CANDIDATES:
                self._decisions[address] = allowed
        if allowed:
            self._transport.sendto(data, addr)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _retrieve_exception(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()

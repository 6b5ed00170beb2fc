"""Flow control of a client's connection, without an event object while nothing waits."""

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl


class LazyFlowControl(FlowControl):
    """uvicorn's flow control, with an event only while writing is paused."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.read_paused = False
        self.write_paused = False
        self._writable: asyncio.Event | None = None

    async def drain(self) -> None:
        """Wait until the transport accepts more data."""
        if self._writable is not None:
            await self._writable.wait()

    def pause_writing(self) -> None:
        """See asyncio.Protocol: `drain` waits from now on."""
        if not self.write_paused:
            self.write_paused = True
            self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        """See asyncio.Protocol: end the waiting in `drain`."""
        if self._writable is not None:
            self.write_paused = False
            self._writable.set()
            self._writable = None

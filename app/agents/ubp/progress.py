"""Progress of a command, from its executor to the peer that has asked for it."""

import asyncio
from dataclasses import replace

from app.core.errors import InvalidInput
from app.core.uuid7 import uuid7
from app.formats.ubp.model import REPLY_TO, Command, Event, Message
from app.protocols.command_routing import MessageSender
from app.protocols.ubp.adapter import PROGRESS


class ProgressSender:
    """Sends the events of one command, with `reply_to`. Where the peer reads slowly, it gets the latest."""

    def __init__(self, sender: MessageSender, message: Message) -> None:
        self._sender = sender
        self._message = message
        self._next: Event | None = None
        self._sending: asyncio.Task[None] | None = None
        self._closed = False

    def add(self, event: Event) -> None:
        """Send an event soon; events that are not about progress are not passed on."""
        if self._closed or event.event_name != PROGRESS:
            return
        self._next = event
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._send())

    async def aclose(self) -> None:
        """Wait until what is being sent is sent: the response comes after it."""
        self._closed = True
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def _send(self) -> None:
        command = self._message.payload
        command_id = command.command_id if isinstance(command, Command) else ""
        while self._next is not None:
            event, self._next = self._next, None
            event = replace(event, metadata={**event.metadata, "command_id": command_id})
            try:
                await self._sender.send(Message(uuid7().hex, event, {REPLY_TO: self._message.message_id}))
            except (ConnectionError, InvalidInput):
                # The connection has ended, or the payload has no form that this peer reads.
                return

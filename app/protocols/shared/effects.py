"""Base classes for adapters of protocols that do not describe the effects of a call."""

from typing import Any

from app.protocols.base import Call, SendsOnce


class UnknownEffects(SendsOnce):
    """The base of adapters whose calls may have any effect: no call is retried, no response is reused."""

    def is_safe(self, target: Any) -> bool:  # noqa: ARG002 - the protocol.
        """Return False: the effects of a call are unknown."""
        return False

    def is_idempotent(self, target: Any) -> bool:  # noqa: ARG002 - the protocol.
        """Return False."""
        return False

    def is_sent_once(self, target: Any) -> bool:  # noqa: ARG002 - the protocol.
        """Return True: the upstream gets no idempotency key."""
        return True

    def request_identity(self, call: Call[Any]) -> bytes | None:  # noqa: ARG002 - no response is reused.
        """Return None: responses are not cached."""
        return None


class ReadOnly:
    """The base of adapters that only read on this machine: no side effects, and nothing worth caching."""

    def is_safe(self, target: Any) -> bool:  # noqa: ARG002 - the contract's.
        """Return True."""
        return True

    def is_idempotent(self, target: Any) -> bool:  # noqa: ARG002 - the contract's.
        """Return True."""
        return True

    def request_identity(self, call: Call[Any]) -> bytes | None:  # noqa: ARG002 - the contract's.
        """Return None: responses are not cached."""
        return None

    def method(self, target: Any) -> str:  # noqa: ARG002 - the contract's.
        """Return `read`."""
        return "read"

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""

"""What protocols can say of the effects of a call that do not say more."""

from typing import Any

from app.protocols.base import Call


class UnknownEffects:
    """The base of adapters whose calls may do anything: none is sent again, no answer is used for another."""

    def safe(self, target: Any) -> bool:  # noqa: ARG002 - nothing tells.
        """Never: nobody knows what a call does."""
        return False

    def idempotent(self, target: Any) -> bool:  # noqa: ARG002 - nothing tells.
        """Never."""
        return False

    def exact(self, call: Call) -> bytes | None:  # noqa: ARG002 - no answer is used again.
        """None."""
        return None


class ReadOnly:
    """The base of adapters that only read on this machine: no effects, and nothing to save by keeping it."""

    def safe(self, target: Any) -> bool:  # noqa: ARG002 - the contract's.
        """Always."""
        return True

    def idempotent(self, target: Any) -> bool:  # noqa: ARG002 - the contract's.
        """Always."""
        return True

    def exact(self, call: Call) -> bytes | None:  # noqa: ARG002 - the contract's.
        """None."""
        return None

    def verb(self, target: Any) -> str:  # noqa: ARG002 - the contract's.
        """What it does."""
        return "read"

    async def aclose(self) -> None:
        """Nothing is held."""

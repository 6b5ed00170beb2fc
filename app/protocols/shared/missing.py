"""The adapter of a protocol whose library is not installed: it says which extra to install."""

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

from app.protocols.base import Call, Discovered, Means, Result
from app.protocols.shared.extras import refuse_without


def of_the_extra(error: ImportError, *modules: str) -> bool:
    """Whether one of these libraries is what could not be imported."""
    return (error.name or "").partition(".")[0] in modules


class Missing:
    """Stands in for an adapter, and refuses every template. Subclasses have the `name` of the extra."""

    name: ClassVar[str]

    def __init__(self, means: Means) -> None:
        """It needs nothing."""

    def prepare(self, template: Mapping[str, Any]) -> NoReturn:  # noqa: ARG002 - the contract's.
        """Raises InvalidInput."""
        refuse_without(self.name, installed=False, protocol=self.name)
        raise NotImplementedError

    def origin(self, target: Any) -> str:
        """Never asked: nothing was prepared. So are all others."""
        raise NotImplementedError

    def safe(self, target: Any) -> bool:
        raise NotImplementedError

    def idempotent(self, target: Any) -> bool:
        raise NotImplementedError

    def exact(self, call: Call) -> bytes | None:
        raise NotImplementedError

    def verb(self, target: Any) -> str:
        raise NotImplementedError

    async def discover(self, call: Call) -> Discovered:
        raise NotImplementedError

    async def call(self, call: Call) -> Result:
        raise NotImplementedError

    def describe(self, call: Call) -> dict[str, Any]:
        raise NotImplementedError

    async def aclose(self) -> None:
        """Nothing is held."""

"""The adapter of a protocol whose library is not installed: its error names the extra to install."""

from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from app.core.errors import FieldError, InvalidInput
from app.protocols.base import Call, Discovered, Result


def is_missing(error: ImportError, libraries: Collection[str]) -> bool:
    """Return whether one of these top-level modules is what could not be imported."""
    return (error.name or "").partition(".")[0] in libraries


class MissingAdapter:
    """Replaces the adapter; `prepare` rejects every template, so that no other method is called."""

    def __init__(self, name: str, *, extra: str) -> None:
        self.name = name
        self._extra = extra

    def prepare(self, template: Mapping[str, Any]) -> NoReturn:  # noqa: ARG002 - the contract's.
        """Raise InvalidInput, which names the extra of the distribution to install."""
        install = f"pip install 'utcp-gateway[{self._extra}]'"
        detail = f"Protocol {self.name} needs the extra `{self._extra}`: {install}."
        raise InvalidInput(detail, errors=[FieldError("/call_template_type", detail)])

    def origin(self, target: Any) -> str:
        raise NotImplementedError

    def is_safe(self, target: Any) -> bool:
        raise NotImplementedError

    def is_idempotent(self, target: Any) -> bool:
        raise NotImplementedError

    def request_identity(self, call: Call[Any]) -> bytes | None:
        raise NotImplementedError

    def method(self, target: Any) -> str:
        raise NotImplementedError

    async def discover(self, call: Call[Any]) -> Discovered:
        raise NotImplementedError

    async def call(self, call: Call[Any]) -> Result:
        raise NotImplementedError

    def describe(self, call: Call[Any]) -> dict[str, Any]:
        raise NotImplementedError

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""

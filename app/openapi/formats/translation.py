"""An OpenAPI document that was made of another kind of document."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from app.openapi.model import Json

OPENAPI: Final = "3.2.0"
"""The version of the documents that translations make."""

Warn = Callable[[str, str], None]

UNREADABLE: Final = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
"""Errors that a malformed part may cause; it is left out with a warning."""
UNREADABLE_PART: Final = "what is written in a way that cannot be read was left out"


@dataclass(frozen=True, slots=True)
class Translation:
    """The OpenAPI document, with what the report says of its operations.

    `notes` are by the JSON pointer of the operation in `raw`; `pointers` give, for a pointer in `raw`, that
    of the same part of the source.
    """

    raw: Json
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pointers: Mapping[str, str] = field(default_factory=dict)

    def source_pointer(self, at: str) -> str:
        """Return the pointer in the source of the nearest part that contains the pointer `at`."""
        while at and at not in self.pointers:
            at = at.rpartition("/")[0]
        return self.pointers.get(at, "")

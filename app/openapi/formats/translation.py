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

    `notes` has the notes of each operation by its JSON pointer in `raw`. `pointers` maps pointers in `raw` to
    pointers to the same parts of the source.
    """

    raw: Json
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pointers: Mapping[str, str] = field(default_factory=dict)

    def find_source_pointer(self, pointer: str) -> str:
        """Return the pointer in the source of the nearest part that contains the pointer `pointer`."""
        while pointer and pointer not in self.pointers:
            pointer = pointer.rpartition("/")[0]
        return self.pointers.get(pointer, "")

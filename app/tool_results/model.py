"""The result of a call as models and their clients take it, whatever the dialect."""

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound or other binary content."""

    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResultBudget:
    """How large a result may be, and in which form a model wants it; None: no such limit."""

    max_bytes: int | None = None
    max_tokens: int | None = None
    fields: tuple[str, ...] = ()
    """JSON pointers or JSONPaths: only these parts of a JSON response are returned."""
    format: Literal["json", "toon", "markdown", "csv"] | None = None


@dataclass(slots=True)
class ModelResult:
    """What a model gets of a call.

    `text` is never empty: it is the whole result as text, with what was cut or repaired. `body` is the JSON
    of a JSON response (within the budget), None for any other. `error` is the problem of a failed call.
    """

    text: str
    is_error: bool = False
    body: bytes | None = field(default=None, repr=False)
    media: tuple[Media, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about repairs, cuts and how to get the rest; they are part of `text`, too."""
    continuation: str | None = None
    """The handle by which the rest is read; None where nothing was cut, or the rest cannot be read."""
    error: dict[str, Any] | None = None
    """The members of the problem (RFC 9457) of a failed call."""
    retry_after: float | None = None
    """Seconds after which a rejected call may be repeated."""
    call_id: str = ""

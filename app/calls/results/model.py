"""The result of a call as models and their clients take it, whatever the dialect."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

ResultFormat = Literal["json", "toon", "markdown", "csv"]
TOKEN_BYTES: Final = 3
MIN_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound or other binary content; `uri` is that of a resource, "" for other content."""

    media_type: str
    data: bytes = field(repr=False)
    uri: str = ""


@dataclass(frozen=True, slots=True)
class TextResource:
    """A resource of an MCP server whose content is text; `media_type` is "" where it is unknown."""

    uri: str
    media_type: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResultBudget:
    """How large a result may be, and in which form a model wants it; None: no such limit.

    A token counts as three bytes of UTF-8, the usual ratio of dense JSON; prose has more bytes for each. A
    limit of less than 256 bytes is taken as 256.
    """

    max_bytes: int | None = None
    max_tokens: int | None = None
    fields: tuple[str, ...] = ()
    """JSON pointers or JSONPaths: only these parts of a JSON response are returned."""
    format: ResultFormat | None = None
    """The form of a table: a list of objects, alone or as the only list of an object."""

    @property
    def limit(self) -> int | None:
        """The maximum of bytes by both limits; None where there is none."""
        limit = self.max_bytes
        if self.max_tokens is not None:
            bound = self.max_tokens * TOKEN_BYTES
            limit = bound if limit is None or bound < limit else limit
        return limit if limit is None or limit > MIN_BYTES else MIN_BYTES


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
    parts: tuple[str | Media | TextResource, ...] = field(default=(), repr=False)
    """The content of an MCP server in its order, for clients that take such content: the same as `text`
    without notes, and `media`. Empty for other results, and where the text was cut.
    """
    notes: tuple[str, ...] = ()
    """Sentences about repairs, cuts and how to get the rest; they are part of `text`, too."""
    continuation: str | None = None
    """The handle by which the rest is read; None where nothing was cut, or the rest cannot be read."""
    error: dict[str, Any] | None = None
    """The members of the problem (RFC 9457) of a failed call."""
    retry_after: float | None = None
    """Seconds after which a rejected call may be repeated."""
    is_cut: bool = False
    """Whether a part of the response is left out: by the budget, or by a limit of its events."""
    is_redirect: bool = False
    """Whether the response is a redirect, which the output schema of the tool does not describe."""
    call_id: str = ""
    content: str = field(default="", repr=False)
    """`text` without the notes, where there are any, else empty."""
    table_format: ResultFormat | None = None
    """The form of the text, where it is a table."""

    def add_notes(self, notes: Sequence[str]) -> None:
        """Add sentences, also at the end of the text."""
        if not notes and not self.notes:
            return
        self.content = self.content or self.text
        self.notes += tuple(notes)
        self.text = "\n\n".join([self.content, "\n".join(f"Note: {note}" for note in self.notes)])

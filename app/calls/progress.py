"""Reports of the progress of a call, with its secrets masked."""

from typing import Any, Final

from app.protocols.base import Call, ProgressListener

_MAX_MESSAGE: Final = 64 << 10
"""The greatest length of a text in characters; masking it takes about a tenth of a millisecond."""


class MaskedProgress:
    """A `ProgressListener` that passes reports on to another, masked by the masker that `call` has then.

    A longer text than 64 Ki characters is left out, and so is a report whose numbers contain a secret.
    """

    __slots__ = ("_call", "_listener")

    def __init__(self, listener: ProgressListener, call: Call[Any]) -> None:
        self._listener = listener
        self._call = call

    def of_call(self, call: Call[Any]) -> "MaskedProgress":
        """Return the same for another call."""
        return MaskedProgress(self._listener, call)

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass a report on."""
        masker = self._call.masker
        if message is not None and len(message) > _MAX_MESSAGE:
            message = None
        if masker is not None:
            if masker.contains_secret(f"{progress} {total}".encode()):
                return
            if message is not None:
                # The text may be JSON, in whose strings a secret may be escaped.
                masked = masker.mask_json(message.encode("utf-8", "surrogatepass"))
                message = masked.decode("utf-8", "replace")
        self._listener(progress, total, message)

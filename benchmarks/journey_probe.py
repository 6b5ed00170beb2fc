"""Records which project functions run, in the order of their first calls."""

from contextvars import ContextVar
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = str(Path(__file__).parent.parent / "app") + "/"

recording: ContextVar[bool] = ContextVar("recording", default=False)
"""Whether the present task, or the thread that it started, is part of the journey."""


class Recorder:
    """Collects functions of `app` from the moment it is installed; `last` is the code that ends the journey.

    Functions without a name (lambdas, comprehensions), module and class bodies do not count.
    """

    def __init__(self, *, everything: bool = False, last: CodeType | None = None) -> None:
        self.functions: dict[tuple[str, str], None] = {}
        """(file below app, qualified name), in the order of first calls."""
        self._everything = everything
        self._last = last
        self._ended = False

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Take one event of `sys.setprofile`."""
        if event != "call" or self._ended or not (self._everything or recording.get()):
            return
        code = frame.f_code
        if code.co_name == "write" and code.co_filename.endswith("asyncio/selector_events.py"):
            self._ended = self._last is None and not self._everything
        if not code.co_filename.startswith(ROOT) or code.co_name[0] == "<":
            return
        if code.co_flags & CO_OPTIMIZED:
            self.functions.setdefault((code.co_filename.removeprefix(ROOT), code.co_qualname))
            self._ended = code is self._last

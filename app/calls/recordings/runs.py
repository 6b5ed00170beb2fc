"""The run of replays that a call belongs to, as its client names it."""

import re
from typing import Final

from app.core.errors import BadRequest, FieldError

RUN_HEADER: Final = b"x-recording-run"
"""The header of a request, of any interface over HTTP; without it, a call belongs to the run of its key."""
RUN_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
_RUN: Final = re.compile(RUN_PATTERN)


def parse_run(value: bytes) -> str:
    """Return the name of a run; raise BadRequest."""
    name = value.decode("latin-1").strip()
    if _RUN.match(name) is None:
        detail = "Give at most 64 letters, digits, `-`, `_` and `.`, beginning with a letter or digit."
        raise BadRequest(
            "The header X-Recording-Run is not valid.",
            errors=[FieldError("#/header/X-Recording-Run", detail)],
        )
    return name

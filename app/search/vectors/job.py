"""What a worker tells the encoding process that it starts."""

import json
from dataclasses import asdict, dataclass, field
from typing import Final

FAILED: Final = 3
"""The exit code where the model cannot be used: starting again does not help."""


@dataclass(frozen=True, slots=True)
class Job:
    """What the process needs of the settings. `memory` is the limit of its data, in bytes."""

    database_url: str = field(repr=False)
    listen_url: str = field(repr=False)
    data_dir: str
    model_dir: str | None
    poll_seconds: float
    memory: int

    def write_line(self) -> bytes:
        """Return the job as the line that the process reads."""
        return json.dumps(asdict(self)).encode() + b"\n"

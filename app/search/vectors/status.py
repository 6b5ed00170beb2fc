"""How far the encoding is: what the process tells all workers, in a small file beside the vectors."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

VectorState = Literal["off", "unavailable", "starting", "encoding", "ready"]
"""off: SEMANTIC_SEARCH is false, or no model is installed; unavailable: the model cannot be used (the log
says why); starting: it is being loaded; encoding: some tools have no vectors yet; ready: all have.
"""


@dataclass(frozen=True, slots=True)
class VectorStatus:
    """`model` is its name (None without one), `encoded` the number of the `total` enabled tools that have
    their vectors.
    """

    state: VectorState
    model: str | None = None
    encoded: int = 0
    total: int = 0


def write_status(path: Path, status: VectorStatus) -> None:
    """Write the status and put it in place of the one before; raise OSError."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    beside.write_text(json.dumps(asdict(status)), encoding="utf-8")
    beside.replace(path)


def read_status(path: Path) -> VectorStatus | None:
    """Return the status of a file; None where there is none that can be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        status = VectorStatus(
            content["state"], str(content["model"]), int(content["encoded"]), int(content["total"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return status if status.state in get_args(VectorState) else None

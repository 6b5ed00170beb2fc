"""One file a scenario; each gives rows of what was tried, expected and found."""

from types import ModuleType

from tests.faults.scenarios import (
    backlog,
    cancels,
    fuzzing,
    kills,
    limiter,
    neighbours,
    overload,
    postgres_away,
    redis_away,
    rolling,
    rotation,
    stampede,
    streams,
    toxics,
)

SCENARIOS: dict[str, ModuleType] = {
    "H": stampede,
    "M": cancels,
    "L": toxics,
    "N": limiter,
    "E": redis_away,
    "X": neighbours,
    "Y": overload,
    "A": fuzzing,
    "I": rolling,
    "O": rotation,
    "G": streams,
    "F": postgres_away,
    "D": kills,
    "W": backlog,
}
"""In the order in which they run, those with settings of their own last. Most ids are those of the requirements; X: one
dead upstream beside nine, Y: overload, W: a backlog of calls with an Idempotency-Key, A: schemathesis."""

SLICE = ("H", "M", "L", "E", "I", "G", "F", "D")
"""What `make test` runs in the short form; the others need minutes to mean anything."""

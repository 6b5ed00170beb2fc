"""One file a scenario; each gives rows of what was tried, expected and found."""

from types import ModuleType

from tests.faults.scenarios import (
    backlog,
    cancels,
    edge,
    foreign_responses,
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
    strangers,
    streams,
    toxics,
)

SCENARIOS: dict[str, ModuleType] = {
    "H": stampede,
    "M": cancels,
    "L": toxics,
    "N": limiter,
    "S": strangers,
    "E": redis_away,
    "X": neighbours,
    "Y": overload,
    "R": foreign_responses,
    "A": fuzzing,
    "Q": edge,
    "I": rolling,
    "O": rotation,
    "G": streams,
    "F": postgres_away,
    "D": kills,
    "W": backlog,
}
"""In the order in which they run, those with settings of their own last. Most ids are those of the requirements; X: one
dead upstream beside nine, Y: overload, A: schemathesis, Q: attacks on the edge, R: foreign responses, S: made-up keys,
W: a backlog of calls with an Idempotency-Key."""

SLICE = ("H", "M", "L", "E", "Q", "I", "G", "F", "D")
"""What `make faults-slice` runs in the short form; the others need minutes to mean anything."""

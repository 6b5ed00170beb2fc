"""One file for each scenario; each returns rows of what was tried, expected and found."""

from types import ModuleType

from tests.faults.scenarios import (
    backlog,
    black_holed_upstream,
    cancelled_calls,
    executors,
    foreign_responses,
    fuzzing,
    http_attacks,
    invalid_keys,
    key_rotation,
    kills,
    overload,
    postgres_unavailable,
    rate_limits,
    redis_unavailable,
    rolling_restart,
    streams,
    token_stampede,
    toxics,
)

SCENARIOS: dict[str, ModuleType] = {
    "H": token_stampede,
    "M": cancelled_calls,
    "L": toxics,
    "N": rate_limits,
    "S": invalid_keys,
    "E": redis_unavailable,
    "X": black_holed_upstream,
    "Y": overload,
    "R": foreign_responses,
    "A": fuzzing,
    "Q": http_attacks,
    "I": rolling_restart,
    "O": key_rotation,
    "G": streams,
    "F": postgres_unavailable,
    "D": kills,
    "U": executors,
    "W": backlog,
}
"""In the order in which they run, those with settings of their own last. Most ids are those of the requirements; X: one
black-holed upstream of ten, Y: overload, A: schemathesis, Q: attacks on the HTTP server, R: foreign responses, S: invalid
keys, U: commands for executors (UBP), W: a backlog of calls with an Idempotency-Key."""

SLICE = ("H", "M", "L", "E", "Q", "I", "G", "F", "D")
"""The scenarios that `make faults-slice` runs in the short form; the others need minutes to be meaningful."""

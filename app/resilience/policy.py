"""What one origin may take: the settings, with what its provider has of its own."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """Times in seconds. Equal ones share an origin's state, so an operator who changes one starts afresh.

    `concurrency`: calls that run at once. `queue`: calls that may wait for one of these, each at most
    `queue_seconds`.

    `failures`: so many in a row open the breaker, 0 turns it off. `ratio`: so does this share of failures
    among at least `volume` calls within `window`. `open_seconds`: how long it stays open the first time; each
    time after that twice as long, up to `open_most`.

    `attempts`: how often one call is sent at most. `budget`: the share of all calls that may be sent again.
    """

    concurrency: int = 128
    queue: int = 128
    queue_seconds: float = 1.0
    failures: int = 5
    ratio: float = 0.5
    volume: int = 20
    window: float = 10.0
    open_seconds: float = 5.0
    open_most: float = 60.0
    attempts: int = 3
    budget: float = 0.1

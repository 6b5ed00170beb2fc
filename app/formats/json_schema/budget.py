"""The budget of work that follows a schema: it has a limit of values, of characters and of CPU time.

A schema says how large its values are at least, and 4 kB are enough to require 2**30 of them (30 levels with
two required members each), or one text of a terabyte. So all that is required counts as well, and work in a
thread ends by itself: a thread cannot be cancelled.
"""

import time
from typing import Final, Literal

Limit = Literal["values", "characters", "levels", "seconds"]

MAX_SECONDS: Final = 2.0
"""CPU seconds for one piece of work in a thread; far below the least sensible SHUTDOWN_TIMEOUT."""


class BudgetExceeded(Exception):
    """A schema requires more than the budget allows; `limit` says of what."""

    def __init__(self, limit: Limit, allowed: float) -> None:
        super().__init__(f"The schema requires more than {allowed:,} {limit}.")
        self.limit = limit
        self.allowed = allowed


class Budget:
    """What one piece of work may still produce. It belongs to the thread in which it was created."""

    __slots__ = ("_characters", "_deadline", "_levels", "_seconds", "_values", "characters", "values")

    def __init__(self, *, values: int, characters: int, levels: int, seconds: float = MAX_SECONDS) -> None:
        """Allow so many values, characters in their texts and names, nested levels, and seconds of CPU."""
        self._values = self.values = values
        self._characters = self.characters = characters
        self._levels = levels
        self._seconds = seconds
        self._deadline = time.thread_time() + seconds

    def renew(self) -> None:
        """Allow all values and characters again, for another attempt within the same time."""
        self.values, self.characters = self._values, self._characters

    def spend(self, *, values: int = 0, characters: int = 0, level: int = 0) -> None:
        """Take values and characters that are about to be made; raise BudgetExceeded where none are left."""
        self.values -= values
        self.characters -= characters
        if self.values < 0:
            raise BudgetExceeded("values", self._values)
        if self.characters < 0:
            raise BudgetExceeded("characters", self._characters)
        if level > self._levels:
            raise BudgetExceeded("levels", self._levels)
        self.check_time()

    def check_time(self) -> None:
        """Raise BudgetExceeded where the time is over."""
        if time.thread_time() > self._deadline:
            raise BudgetExceeded("seconds", self._seconds)

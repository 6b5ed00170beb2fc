"""A retry budget: retries are limited to a share of the calls, so that they do not multiply a failing
upstream's load.

Google's SRE book, "Handling Overload": at most three attempts per call, and retries for 10 % of the calls.
"""

# Retries that can be accumulated: a burst of failures must not become a burst of retries.
_MAX_BALANCE = 10.0


class RetryBudget:
    """Allows retries for `share` (0.1 is 10 %) of the calls; the first retry is allowed at once.

    `calls` is incremented by the owner at each call, so that a successful call costs one increment. `spent`
    is the number of retries since the start.
    """

    __slots__ = ("_balance", "_seen", "_share", "calls", "spent")

    def __init__(self, share: float) -> None:
        self._share = share
        self._balance = 0.0
        self._seen = 0
        self.calls = 0
        self.spent = 0

    def try_spend(self) -> bool:
        """Spend one retry; return False, without spending, where the budget is exhausted."""
        self._balance = min(self._balance + (self.calls - self._seen) * self._share, _MAX_BALANCE)
        self._seen = self.calls
        advance = 1.0 if self._share and not self.spent else 0.0
        if self._balance + advance < 1.0:
            return False
        self._balance -= 1.0
        self.spent += 1
        return True

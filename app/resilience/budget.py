"""A retry budget: retries are limited to a share of the calls, so that they do not multiply a failing
upstream's load.

Google's SRE book, "Handling Overload": at most three attempts per call, and retries for 10 % of the calls.
"""

# Retries that can be accumulated: a burst of failures must not become a burst of retries.
_MAX_BALANCE = 10.0


class RetryBudget:
    """Retries for `share` of the calls. The first retry is granted in advance of the calls that earn it.

    `calls` is incremented by whoever makes the calls; a successful call costs nothing else.
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

"""A budget of retries: a share of the calls, so that an upstream that fails is not asked twice as often.

Google's SRE book, "Handling Overload": at most three attempts a call, and retries for 10 % of the calls.
"""

# So many are saved up in good times at most: a burst of failures must not become a burst of retries.
_MAX_BALANCE = 10.0


class Budget:
    """Retries for `share` of the calls. The first one is lent: what the first calls earn pays for it.

    `calls` is counted by who makes them; nothing else happens at a call that succeeds.
    """

    __slots__ = ("_balance", "_seen", "_share", "calls", "spent")

    def __init__(self, share: float) -> None:
        self._share = share
        self._balance = 0.0
        self._seen = 0
        self.calls = 0
        self.spent = 0

    def spend(self) -> bool:
        """Return whether there may be one more retry; counts it if so."""
        self._balance = min(self._balance + (self.calls - self._seen) * self._share, _MAX_BALANCE)
        self._seen = self.calls
        lent = 1.0 if self._share and not self.spent else 0.0
        if self._balance + lent < 1.0:
            return False
        self._balance -= 1.0
        self.spent += 1
        return True

"""A text that must not be seen: it shows itself as `***` wherever it is printed, logged or serialised."""

import hmac
from typing import Any, NoReturn


class Secret:
    """Holds one secret text; only `reveal()` gives it out.

    `repr`, `str` and `format` give `***`; pickling and copying raise TypeError (as does every JSON encoder,
    because the type is unknown to it); `==` takes the same time for every other secret of the same length.
    Secrets have no hash, so that none becomes a key of a dictionary by accident.
    """

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text itself. Call it where the bytes are put on the wire, and keep no copy."""
        return self._value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        mine, theirs = self._value.encode(errors="surrogatepass"), other._value.encode(errors="surrogatepass")
        return hmac.compare_digest(mine, theirs)

    def __repr__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return "***"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Secret is neither pickled nor copied")

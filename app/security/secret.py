"""A secret text, which is printed and logged as `***`, and cannot be serialised."""

import hmac
from typing import Any, NoReturn


class Secret:
    """Holds one secret text; only `reveal()` returns it.

    `repr`, `str` and `format` return `***`; pickling and copying raise TypeError (as does every JSON encoder,
    since the type is unknown to it); `==` takes the same time for all secrets of the same length. Secrets are
    not hashable, so that none becomes a dictionary key by accident.
    """

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text. Call this only where the text is sent, and store no copy."""
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
        raise TypeError("a Secret cannot be pickled or copied")

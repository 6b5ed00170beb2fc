"""Operations that will be removed: since when, until when, and where to read what replaces them.

    @router.get("/old", operation_id="getOld", deprecated=True)
    @deprecated(Deprecation(since=date(2027, 1, 1), sunset=date(2027, 7, 1), guide="https://example.com/guide"))
    async def get_old() -> Old: ...

`app.server.deprecation_headers` tells clients in each response, and in the OpenAPI document
(docs/versioning.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.utils import format_datetime
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

_ATTRIBUTE: Final = "deprecation"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Deprecation:
    """The end of an operation, as its endpoint declares it.

    `since` and `sunset` are days, which begin at midnight UTC: from `since` on nobody should begin to use the
    operation, from `sunset` on it may be gone. `guide` is the URL of a page that says what to use in its
    place; `successor` is the URL or path of the operation that does, if there is one.

    Raises ValueError where `sunset` is before `since`, or `guide` is not an absolute http(s) URL.
    """

    since: date
    sunset: date
    guide: str
    successor: str | None = None

    def __post_init__(self) -> None:
        if self.sunset < self.since:
            # RFC 9745 section 4.
            raise ValueError("An operation cannot be removed before it is deprecated.")
        parts = urlsplit(self.guide)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError("The guide to a deprecated operation is an absolute URL.")

    def headers(self) -> list[tuple[str, str]]:
        """Return the fields of its responses: Deprecation (RFC 9745), Sunset (RFC 8594), Link (RFC 8288)."""
        links = [f'<{self.guide}>; rel="deprecation"', f'<{self.guide}>; rel="sunset"']
        if self.successor is not None:
            links.append(f'<{self.successor}>; rel="successor-version"')
        return [
            ("Deprecation", f"@{int(_midnight(self.since).timestamp())}"),
            ("Sunset", format_datetime(_midnight(self.sunset), usegmt=True)),
            ("Link", ", ".join(links)),
        ]

    def sentence(self) -> str:
        """Return a sentence for the description of the operation."""
        instead = f"use `{self.successor}` instead; " if self.successor is not None else ""
        return f"Deprecated since {self.since}, may be removed on {self.sunset}: {instead}see {self.guide}."


def deprecated(deprecation: Deprecation) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator that declares the deprecation of an endpoint, of FastAPI or of Starlette."""

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _ATTRIBUTE, deprecation)
        return endpoint

    return declare


def deprecation_of(endpoint: object) -> Deprecation | None:
    """Return what an endpoint declares, None for an operation that stays."""
    found = getattr(endpoint, _ATTRIBUTE, None)
    return found if isinstance(found, Deprecation) else None


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)

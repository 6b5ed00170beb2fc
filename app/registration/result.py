"""What an import answers with, and the errors for a name that is taken or not there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.credentials.model import Json
from app.errors import Conflict, NotFound
from app.models import Credential, Provider, Revision
from app.registration.diff import NOTHING, Comparison
from app.registration.model import Draft
from app.registration.persist import Written


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import answers with."""

    provider: Provider
    drafted: Draft
    report: Json
    credentials: tuple[Credential, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    tool_count: int = 0
    difference: Mapping[str, list[str]] | None = None
    comparison: Comparison = NOTHING
    pending: Revision | None = None
    exists: bool = False


def name_taken(name: str) -> Conflict:
    """The error for a name that exists; it says the same whether or not the caller may see that provider."""
    return Conflict(
        f"A provider named {name!r} exists already. Refresh or change it, or choose another name."
    )


def not_found(name: str) -> NotFound:
    """The error for a provider that is not there or not visible."""
    return NotFound(f"There is no provider {name!r}.")


def imported_of(
    provider: Provider,
    drafted: Draft,
    written: Written,
    credentials: list[Credential],
    *,
    count: int | None = None,
) -> Imported:
    """What was written, as an answer; `count` is the number of tools where it is not that of the written."""
    return Imported(
        provider=provider,
        drafted=drafted,
        report=written.report,
        credentials=tuple(credentials),
        names=written.names,
        tool_count=len(written.names) if count is None else count,
        difference=written.difference,
        comparison=written.comparison,
    )

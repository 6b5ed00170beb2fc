"""What the scopes and warnings of API keys are called in the console."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final


def _(message: str) -> str:
    """Mark a message for translation."""
    return message


SCOPE_WORDS: Final[Mapping[str, str]] = {
    "providers:read": _("read providers"),
    "providers:write": _("manage providers and toolsets"),
    "credentials:write": _("manage credentials"),
    "tools:read": _("find tools"),
    "tools:call": _("call tools"),
    "agent-tests:run": _("run agent tests"),
    "executors:connect": _("connect executors"),
    "approvals:decide": _("approve calls"),
    "recordings:read": _("read recordings"),
    "recordings:write": _("manage recordings"),
    "keys:manage": _("manage keys"),
    "calls:read": _("read calls and changes"),
    "calls:bodies": _("read arguments and responses of calls"),
    "metrics:read": _("read metrics"),
    "admin": _("everything"),
}
"""Scopes in words; a scope without any is shown by its name."""

WARNING_WORDS: Final[Mapping[str, str]] = {
    "expires-soon": _("expires soon"),
    "unused": _("unused"),
    "admin-without-expiry": _("admin, no expiry"),
    "unknown-providers": _("unknown providers"),
    "sees-nothing": _("sees nothing"),
}
"""Warnings in one or two words, by their codes."""


@dataclass(frozen=True, slots=True)
class Role:
    """A usual set of scopes."""

    name: str
    label: str
    text: str
    scopes: frozenset[str]


ROLES: Final = (
    Role(
        "agent", _("Agent"), _("Finds and calls tools."), frozenset({"tools:read", "tools:call"})
    ),
    Role(
        "monitoring",
        _("Monitoring"),
        _("Reads metrics, records of calls and changes."),
        frozenset({"metrics:read", "calls:read"}),
    ),
    Role(
        "operator",
        _("Operator"),
        _("Manages providers, toolsets and credentials, and decides about approvals."),
        frozenset(
            {
                "providers:read", "providers:write", "credentials:write", "tools:read", "tools:call",
                "approvals:decide", "calls:read", "metrics:read",
            }
        ),
    ),
    Role("admin", _("Administrator"), _("May do everything."), frozenset({"admin"})),
)  # fmt: skip


def scopes_in_words(scopes: Iterable[str], gettext: Callable[[str], str]) -> str:
    """Return the scopes of a key as words with commas between them; `admin` says it all."""
    given = list(scopes)
    if "admin" in given:
        return gettext(SCOPE_WORDS["admin"])
    ordered = [name for name in SCOPE_WORDS if name in given] + [
        one for one in given if one not in SCOPE_WORDS
    ]
    return ", ".join(gettext(SCOPE_WORDS[one]) if one in SCOPE_WORDS else one for one in ordered)

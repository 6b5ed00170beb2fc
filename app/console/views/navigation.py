"""The navigation of the console: the pages whose operations the key may use."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NavigationItem:
    """A page in the navigation; `operation` is what it shows, of the API."""

    label: str
    path: str
    icon: str
    operation: str
    shortcut: str
    """The second letter of its keyboard shortcut: g, then this letter."""
    is_current: bool = False
    count: int | None = None
    """What waits there; None or 0 is not shown."""


def _(message: str) -> str:
    """Mark a message for translation."""
    return message


_ITEMS: Final = (
    NavigationItem(_("Overview"), "/console", "overview", "GET /me", "o"),
    NavigationItem(_("Tools"), "/console/tools", "tools", "GET /tools", "t"),
    NavigationItem(_("Providers"), "/console/providers", "providers", "GET /providers", "p"),
    NavigationItem(_("Toolsets"), "/console/toolsets", "toolsets", "GET /toolsets", "s"),
    NavigationItem(_("Calls"), "/console/calls", "calls", "GET /calls", "c"),
    NavigationItem(_("Approvals"), "/console/approvals", "approvals", "GET /approvals", "a"),
    NavigationItem(_("Keys"), "/console/keys", "keys", "GET /keys", "k"),
    NavigationItem(_("Changes"), "/console/changes", "changes", "GET /events", "e"),
    NavigationItem(_("Search lab"), "/console/search", "search", "GET /tools/search", "l"),
    NavigationItem(_("Settings"), "/console/settings", "settings", "GET /settings", "h"),
)


def navigation(
    path: str, *, may: Callable[[str], bool], gettext: Callable[[str], str], pending_approvals: int | None
) -> list[NavigationItem]:
    """Return the items whose operations `may` allows, in the language of `gettext`, that of `path` marked.

    `pending_approvals` is how many approvals wait; None where the key may not see them.
    """
    return [
        NavigationItem(
            gettext(item.label),
            item.path,
            item.icon,
            item.operation,
            item.shortcut,
            is_current=path == item.path or (item.path != "/console" and path.startswith(item.path + "/")),
            count=pending_approvals if item.path == "/console/approvals" else None,
        )
        for item in _ITEMS
        if may(item.operation)
    ]

"""Notices: what an action has done, shown once on the page that follows it, with a form that takes it back.

They are parameters of the page's URL (`notice`, `undo`), so that nothing is stored for them. The texts stand
here: a URL can only name one, and give it a count and names. In a session, all of it is authenticated under a
key of the session (HMAC-SHA-256): nobody else can make a link that says what was not done, or whose button
does something.
"""

import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from starlette.datastructures import QueryParams


def _(message: str) -> str:
    """Mark a message for translation."""
    return message


TEXTS: Final[Mapping[str, str]] = {
    "saved": _("Saved."),
    "deleted": _("Deleted."),
    "created": _("Created."),
    "tool-enabled": _("Enabled"),
    "tool-disabled": _("Disabled"),
    "tools-enabled": _("Enabled %(count)s tools."),
    "tools-disabled": _("Disabled %(count)s tools."),
    "tools-tagged": _("Added the tags to %(count)s tools."),
    "tools-untagged": _("Removed the tags from %(count)s tools."),
    "tools-not-changed": _("%(count)s tools could not be changed."),
    "tools-none-selected": _("No tools were selected."),
    "tools-too-many": _("At most 1,000 tools are changed at once. Narrow the filters."),
    "tools-too-many-to-export": _("At most 200 tools are exported at once. Filter by provider or tag only."),
    "toolset-added": _("Added %(count)s tools to the toolset."),
    "toolset-removed": _("Removed %(count)s tools from the toolset."),
    "synonyms-created": _("Added the synonyms."),
    "synonyms-deleted": _("Deleted the synonyms."),
    "pin-created": _("Pinned the tool."),
    "pin-deleted": _("Deleted the pinned result."),
    "usage-deleted": _("Deleted what the ranking had learned."),
    "usage-not-deleted": _("Nothing was deleted: neither a tool nor a key was given."),
    "type-the-name": _("Nothing was deleted: the name was not typed."),
    "tags-missing": _("Give at least one tag."),
    "tags-saved": _("Saved the tags."),
    "description-saved": _("Saved the description."),
    "provider-paused": _("Paused. Its tools cannot be called, and agents do not see them."),
    "provider-resumed": _("Resumed."),
    "provider-refreshed": _("Refreshed from its source."),
    "provider-approved": _("Approved the changes."),
    "provider-deleted": _("Deleted the provider with its tools, credentials and variables:"),
    "credential-stored": _("Stored the credential. It is never shown again."),
    "credential-deleted": _("Deleted the credential. Calls do not send it any more."),
    "variable-stored": _("Stored the variable."),
    "variable-deleted": _("Deleted the variable."),
    "plugin-enabled": _("Enabled the plugin."),
    "plugin-disabled": _("Disabled the plugin: its provider and toolset are deleted."),
    "approved": _("Approved: %(count)s."),
    "rejected": _("Rejected: %(count)s."),
    "requirement-removed": _("Removed the requirement of approval."),
    "key-revoked": _("Revoked the key."),
    "key-shown-once": _(
        "The key was created already. Its text is shown only once; rotate the key to get another one."
    ),
    "signed-in": _("You are signed in."),
    "signed-out": _("You are signed out."),
}
"""The texts of notices by their names; pages add theirs here."""
_MAX_SUBJECT: Final = 200


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice. `undo` is the path of a form that takes the action back, `undo_fields` are its fields."""

    name: str
    count: int = 0
    subject: str = ""
    undo: str = ""
    undo_fields: tuple[tuple[str, str], ...] = ()

    def as_query(self, key: bytes) -> dict[str, Any]:
        """Return the parameters of the URL of the page that shows it; `key` authenticates its undo."""
        query: dict[str, Any] = {"notice": self.name}
        if self.count:
            query["count"] = self.count
        if self.subject:
            query["subject"] = self.subject
        if self.undo:
            query["undo"] = self.undo
            query["undo_field"] = [f"{name}={value}" for name, value in self.undo_fields]
        if key:
            said = (self.name, str(self.count or ""), self.subject, self.undo)
            query["undo_mac"] = _compute_mac(key, said, query.get("undo_field", ()))
        return query


@dataclass(frozen=True, slots=True)
class ShownNotice:
    """A notice as a page shows it."""

    text: str
    subject: str
    undo: str
    undo_fields: tuple[tuple[str, str], ...]


def read_notice(query: QueryParams, gettext: Callable[[str], str], key: bytes) -> ShownNotice | None:
    """Return the notice that a URL names; None without one, and where `key`, if there is one, does not
    authenticate it. Without a key it has no undo.
    """
    text = TEXTS.get(query.get("notice", ""))
    if text is None:
        return None
    count = query.get("count", "0")
    undo = query.get("undo", "")
    fields = query.getlist("undo_field")
    said = [query.get(name, "") for name in ("notice", "count", "subject", "undo")]
    if not key:
        undo, fields = "", []
    elif not hmac.compare_digest(
        _compute_mac(key, said, fields).encode(), query.get("undo_mac", "").encode()
    ):
        return None
    pairs = tuple((name, value) for name, _, value in (one.partition("=") for one in fields))
    return ShownNotice(
        gettext(text) % {"count": count if count.isdigit() else "0"},
        query.get("subject", "")[:_MAX_SUBJECT],
        undo,
        pairs,
    )


def _compute_mac(key: bytes, said: Sequence[str], fields: Sequence[str]) -> str:
    # As JSON, in which a text with any characters ends where it ends.
    message = json.dumps([*said, list(fields)]).encode("ascii")
    return hmac.new(key, message, sha256).hexdigest()[:32]

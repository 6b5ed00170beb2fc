"""Warnings about API keys, for those who manage or use them: expiry, disuse, restrictions to nothing."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Self

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.repository import is_expired
from app.catalog.tools import Viewer, providers_with_tags, visible_providers
from app.core.settings import Settings
from app.security.scopes import ADMIN
from app.storage.models import TENANT, Key, ToolsetRow, now

WarningCode = Literal["expires-soon", "unused", "admin-without-expiry", "unknown-providers", "sees-nothing"]


@dataclass(frozen=True, slots=True)
class KeyWarning:
    """A warning: a stable code, what is the case, and what to do."""

    code: WarningCode
    detail: str
    hint: str


@dataclass(frozen=True, slots=True)
class KeyWarningPolicy:
    """How long before its expiry a key is warned of, and after how long without a request."""

    expiry: timedelta
    unused: timedelta

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return the policy of KEY_EXPIRY_WARNING_DAYS and KEY_UNUSED_WARNING_DAYS."""
        return cls(
            expiry=timedelta(days=settings.key_expiry_warning_days),
            unused=timedelta(days=settings.key_unused_warning_days),
        )


async def read_key_warnings(
    session: AsyncSession, rows: Sequence[Key], policy: KeyWarningPolicy, *, viewer: Viewer
) -> list[list[KeyWarning]]:
    """Return the warnings about each of the keys, in three statements at most; none about a key that is not
    valid. To the viewer, a provider that it may not see does not exist.
    """
    valid = [row for row in rows if row.revoked_at is None and not is_expired(row)]
    names = {name for row in valid for name in row.providers or ()}
    tags = {tag for row in valid for tag in row.tags or ()}
    existing = await visible_providers(session, viewer, names=names) if names else frozenset[str]()
    tagged = await providers_with_tags(session, tags) if tags else frozenset[tuple[str, str]]()
    toolsets = await _existing_toolsets(session, {name for row in valid for name in row.toolsets or ()})
    found = {
        row.key_id: [
            *_of_validity(row, policy),
            *_of_restrictions(row, existing, tagged),
            *_of_toolsets(row, toolsets),
        ]
        for row in valid
    }
    return [found.get(row.key_id, []) for row in rows]


async def _existing_toolsets(session: AsyncSession, names: Collection[str]) -> frozenset[str]:
    if not names:
        return frozenset()
    query = select(col(ToolsetRow.name)).where(
        col(ToolsetRow.tenant_id) == TENANT, col(ToolsetRow.name).in_(sorted(names))
    )
    return frozenset((await session.execute(query)).scalars())


def _of_toolsets(row: Key, existing: frozenset[str]) -> list[KeyWarning]:
    unknown = sorted(set(row.toolsets or ()) - existing)
    if not unknown and row.toolsets != []:
        return []
    # No code of its own: a client of release 0.2 would not know it.
    return [
        KeyWarning(
            "sees-nothing",
            f"The key is limited to toolsets that do not exist: {', '.join(unknown)}."
            if unknown
            else "The key is limited to no toolset at all.",
            "Create them with PUT /toolsets/{name}, or change `toolsets` with PATCH /keys/{key_id}.",
        )
    ]


def _of_validity(row: Key, policy: KeyWarningPolicy) -> list[KeyWarning]:
    found = []
    moment = now()
    if row.expires_at is not None and row.expires_at <= moment + policy.expiry:
        hint = "Create its successor with POST /keys/{key_id}/rotate, and give it to the clients of the key."
        if row.successor_id is not None:
            hint = f"Its successor is {row.successor_id}: give that key to the clients that use this one."
        found.append(KeyWarning("expires-soon", f"The key expires at {row.expires_at.isoformat()}.", hint))
    if row.expires_at is None and ADMIN in row.scopes:
        found.append(
            KeyWarning(
                "admin-without-expiry",
                "The key has the scope `admin`, and does not expire.",
                "Set `expires_at` with PATCH /keys/{key_id}, or use keys with fewer scopes.",
            )
        )
    if (row.last_used_at or row.created_at) <= moment - policy.unused:
        since = "never" if row.last_used_at is None else f"last at {row.last_used_at.isoformat()}"
        found.append(
            KeyWarning(
                "unused",
                f"The key was used {since}.",
                "Revoke it with DELETE /keys/{key_id} if no client needs it.",
            )
        )
    return found


def _of_restrictions(
    row: Key, existing: frozenset[str], tagged: frozenset[tuple[str, str]]
) -> list[KeyWarning]:
    found = []
    unknown = sorted(set(row.providers or ()) - existing)
    if unknown:
        found.append(
            KeyWarning(
                "unknown-providers",
                f"The key is restricted to providers that were not found: {', '.join(unknown)}.",
                "Register them, or change `providers` with PATCH /keys/{key_id}.",
            )
        )
    providers = None if row.providers is None else set(row.providers) & existing
    if row.tags is None:
        sees_nothing = providers is not None and not providers
    else:
        sees_nothing = not any(
            tag in row.tags and (providers is None or provider in providers) for provider, tag in tagged
        )
    if sees_nothing:
        found.append(
            KeyWarning(
                "sees-nothing",
                "No provider and no tool is within the key's restrictions.",
                "Change `providers` or `tags` with PATCH /keys/{key_id}, or register what it is for.",
            )
        )
    return found

"""Granting and revoking keys on behalf of a caller, who can pass on nothing that it does not have."""

from app.access.repository import find_visible, issue_key, revoke_key
from app.catalog.feed import Feed
from app.database import Database
from app.errors import Conflict, Forbidden, NotFound
from app.keys.schemas import KeyCreate
from app.models import Key, now
from app.security.principal import Grant, Principal
from app.security.secret import Secret
from app.security.vault import Vault


async def grant_key(
    body: KeyCreate, *, database: Database, vault: Vault, feed: Feed, principal: Principal
) -> tuple[Secret, Key]:
    """Makes a key; gives its text and its row. `Forbidden` for more rights than the principal's own."""
    grant = body.grant()
    _check(principal, grant)
    if grant.expires_at is not None and grant.expires_at <= now():
        raise Conflict("`expires_at` has passed already.")
    async with database.writing() as session:
        minted, row = await issue_key(
            session, vault, name=body.name, grant=grant, actor=principal.key_id, tenant=principal.tenant_id
        )
    await feed.catch_up()
    return minted.text, row


async def withdraw_key(key_id: str, *, database: Database, feed: Feed, principal: Principal) -> None:
    """Revokes a key: at once on this worker, elsewhere as soon as the change feed tells.

    `NotFound` where there is none (any more) or it is not to be seen, `Forbidden` for a key with scopes that
    the principal lacks, `Conflict` for the very key that asks.
    """
    if key_id == principal.key_id:
        raise Conflict("A key cannot revoke itself; use another one, e.g. its successor.")
    async with database.writing() as session:
        row = await find_visible(session, key_id, principal=principal, lock=True)
        if row is None:
            raise no_such_key()
        lacking = principal.lacks(Grant(scopes=frozenset(row.scopes)))
        if lacking:
            raise Forbidden(
                f"The key to be revoked has scopes that yours lacks: {', '.join(lacking)}.",
                extra={"missing_scopes": list(lacking)},
            )
        await revoke_key(session, row, actor=principal.key_id)
    await feed.catch_up()


def no_such_key() -> NotFound:
    """The error for a key that does not exist, is revoked, or is none of the caller's business."""
    return NotFound("There is no such key.")


def _check(principal: Principal, grant: Grant) -> None:
    lacking = principal.lacks(grant)
    if lacking:
        raise Forbidden(
            f"A key can only pass on scopes that it has; yours lacks {', '.join(lacking)}.",
            extra={"missing_scopes": list(lacking)},
        )
    if not principal.limits_cover(grant):
        raise Forbidden(
            "Your key is limited to some providers or tags: name `providers` or `tags` within its own limits."
        )
    if not principal.outpaces(grant):
        raise Forbidden("Your key has a rate limit: name a `rate_limit` within it.")
    if not principal.outlives(grant):
        raise Forbidden("A key cannot outlive the one that made it: give an `expires_at` before its end.")

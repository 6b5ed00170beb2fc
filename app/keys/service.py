"""Creating and revoking keys on behalf of a principal, which can grant no right that it lacks."""

from app.access import repository
from app.catalog.feed import ChangeFeed
from app.database import Database
from app.errors import Conflict, Forbidden, NotFound
from app.keys.schemas import KeyCreate
from app.models import Key, now
from app.security.principal import Grant, Principal
from app.security.secret import Secret
from app.security.vault import Vault


async def create_key(
    body: KeyCreate, *, database: Database, vault: Vault, feed: ChangeFeed, principal: Principal
) -> tuple[Secret, Key]:
    """Create a key; return its text and its row.

    Raise Forbidden for rights that the principal lacks, and Conflict for an `expires_at` in the past.
    """
    grant = body.grant()
    _check(principal, grant)
    if grant.expires_at is not None and grant.expires_at <= now():
        raise Conflict("`expires_at` is in the past.")
    async with database.writing() as session:
        minted, row = await repository.issue_key(
            session, vault, name=body.name, grant=grant, actor=principal.key_id, tenant=principal.tenant_id
        )
    await feed.catch_up()
    return minted.text, row


async def revoke_key(key_id: str, *, database: Database, feed: ChangeFeed, principal: Principal) -> None:
    """Revoke a key: at once on this worker, on the others as soon as they read the change feed.

    Raise NotFound where it does not exist, is revoked or may not be seen; Forbidden for a key with scopes
    that the principal lacks; Conflict for the principal's own key.
    """
    if key_id == principal.key_id:
        raise Conflict("A key cannot revoke itself; use another key, e.g. its successor.")
    async with database.writing() as session:
        row = await repository.find_visible(session, key_id, principal=principal, lock=True)
        if row is None:
            raise no_such_key()
        lacking = principal.missing_scopes(Grant(scopes=frozenset(row.scopes)))
        if lacking:
            raise Forbidden(
                f"The key has scopes that your key lacks: {', '.join(lacking)}.",
                extra={"missing_scopes": list(lacking)},
            )
        await repository.revoke_key(session, row, actor=principal.key_id)
    await feed.catch_up()


def no_such_key() -> NotFound:
    """Return the error for a key that does not exist, is revoked, or may not be seen by the principal."""
    return NotFound("There is no such key.")


def _check(principal: Principal, grant: Grant) -> None:
    lacking = principal.missing_scopes(grant)
    if lacking:
        raise Forbidden(
            f"A key can grant only scopes that it has; yours lacks {', '.join(lacking)}.",
            extra={"missing_scopes": list(lacking)},
        )
    if not principal.covers_restrictions(grant):
        raise Forbidden(
            "Your key is restricted to providers or tags: give `providers` or `tags` within these."
        )
    if not principal.covers_rate_limit(grant):
        raise Forbidden("Your key has a rate limit: give a `rate_limit` within it.")
    if not principal.covers_expiry(grant):
        raise Forbidden("A key cannot outlive its creator: give an `expires_at` no later than your key's.")

"""The rejection of restrictions to providers that do not exist: usually a mistyped name."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from app.catalog.tools import visible_providers
from app.core.errors import FieldError, InvalidInput
from app.core.suggestions import did_you_mean
from app.providers.registration.repository import similar_providers
from app.security.principal import Principal

_MAX_ERRORS: Final = 50
_MAX_SUGGESTIONS: Final = 5


async def reject_unknown_providers(
    session: AsyncSession, names: Sequence[str], *, principal: Principal
) -> None:
    """Raise InvalidInput with a pointer `/providers/N` to each name of which the principal sees no provider.

    Whether a provider does not exist or may not be seen makes no difference. The first five errors suggest
    similar names, of the providers that the principal may list.
    """
    if not names:
        return
    visible = await visible_providers(session, principal, names=set(names))
    errors: list[FieldError] = []
    for index, name in enumerate(names):
        if name in visible or len(errors) == _MAX_ERRORS:
            continue
        detail = "There is no provider of this name."
        if len(errors) < _MAX_SUGGESTIONS:
            similar = await similar_providers(session, name, principal=principal)
            detail = f"{detail} {did_you_mean(similar)}".rstrip()
        errors.append(FieldError(f"/providers/{index}", detail))
    if errors:
        raise InvalidInput(
            f"`providers` has names of which there is no provider: see {errors[0].pointer}.",
            errors=errors,
            hint="Correct the names, or give `allow_unknown_providers: true` if the providers are registered "
            "later.",
        )

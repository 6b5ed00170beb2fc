"""The services of keys, as dependencies of FastAPI."""

from typing import Annotated

from fastapi import Depends, Request

from app.access.key_warnings import KeyWarningPolicy
from app.api.dependencies import services_of
from app.api.keys.service import KeyService


async def _keys(request: Request) -> KeyService:
    services = services_of(request)
    policy = KeyWarningPolicy.from_settings(services.settings)
    return KeyService(services.database, services.vault, services.feed, policy)


UsesKeys = Annotated[KeyService, Depends(_keys)]

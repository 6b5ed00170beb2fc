"""The response header `API-Key-Expires`: when the API key of the request expires, where that is soon.

Its value is an HTTP date (RFC 9110 section 5.6.7), as that of `Expires` and `Sunset` (RFC 8594). No
registered field says this of a credential.
"""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.core.settings import Settings
from app.security.principal import Principal

HEADER: Final = "API-Key-Expires"
_NAME: Final = HEADER.lower().encode()


class KeyExpiryHeader:
    """Adds the header to the responses to requests with a key that expires within KEY_EXPIRY_WARNING_DAYS."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; the key is known when its response begins."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_expiry(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_expiry(message, scope)
            await send(message)

        await self.app(scope, receive, send_with_expiry)


def with_expiry(scope: Scope, send: Send) -> Send:
    """Return `send` for the response to an authenticated request; `send` itself where its key does not expire
    soon.
    """
    if _get_expiry(scope) is None:
        return send

    async def send_with_expiry(message: Message) -> None:
        if message["type"] == "http.response.start":
            _add_expiry(message, scope)
        await send(message)

    return send_with_expiry


def _add_expiry(message: Message, scope: Scope) -> None:
    expires_at = _get_expiry(scope)
    if expires_at is not None:
        value = format_datetime(expires_at, usegmt=True).encode()
        message["headers"] = [*message.get("headers", ()), (_NAME, value)]


def _get_expiry(scope: Scope) -> datetime | None:
    """Return when the key of a request expires (UTC), None where that is not soon."""
    state = scope.get("state", {})
    principal: Principal | None = state.get("principal")
    if principal is None or principal.expires_at is None:
        return None
    settings: Settings = state["services"].settings
    is_soon = principal.expires_at <= datetime.now(UTC) + timedelta(days=settings.key_expiry_warning_days)
    return principal.expires_at.astimezone(UTC) if is_soon else None

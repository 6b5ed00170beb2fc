"""The responses to errors, and the exception handlers of the application."""

import json
from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.challenges import challenge
from app.core import exact_json
from app.core.errors import GatewayError, ResponseTruncated
from app.core.telemetry.unexpected import log_unexpected_error
from app.server.problems.translation import translate

MEDIA_TYPE = "application/problem+json"

_log = structlog.get_logger(__name__)


def install(app: FastAPI) -> None:
    """Add exception handlers that respond to every error with a problem; call after the last
    `add_middleware`.
    """
    for kind in (
        GatewayError,
        RequestValidationError,
        HTTPException,
        ClientDisconnect,
        DBAPIError,
        PoolTimeout,
        json.JSONDecodeError,
        RecursionError,
    ):
        app.add_exception_handler(kind, _handle)
    app.add_middleware(UnhandledErrorMiddleware)


class UnhandledErrorMiddleware:
    """The outermost middleware: an unexpected error becomes a 500 with an id that is also logged."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond in place of the application where it raised before its response began."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def send_watched(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, send_watched)
        except Exception as error:  # noqa: BLE001  (the last place that can respond)
            if begun:
                log_truncated_response(error)
                # Only an error makes the server close the connection, so that the response is not taken as
                # complete.
                raise ResponseTruncated from None
            await build_error_response(HTTPConnection(scope), error)(scope, receive, send)


async def _handle(request: Request, error: Exception) -> Response:
    return build_error_response(request, error)


def build_error_response(connection: HTTPConnection, error: Exception) -> Response:
    """Return the response to any error; log an unexpected one."""
    known = translate(connection, error)
    if known is None:
        known = log_unexpected_error(error)
    call_id = getattr(connection.state, "call_id", None)
    if known.status in (401, 403):
        _set_challenge(known, connection.scope)
    return build_problem_response(
        known,
        call_id=None if call_id is None else str(call_id),
        base_url=_get_base_url(connection.scope),
    )


def _set_challenge(error: GatewayError, scope: Mapping[str, Any]) -> None:
    """Set WWW-Authenticate of a 401, and of a 403 for a missing scope."""
    services = scope.get("state", {}).get("services")
    if services is not None:
        value = challenge(error, scope, services.settings)
        if value is not None:
            error.headers["WWW-Authenticate"] = value


def build_problem_response(
    error: GatewayError, *, call_id: str | None = None, base_url: str = ""
) -> Response:
    """Return the problem response of an error, with `call_id` where it belongs to a call.

    `base_url` is the gateway's public URL, for links to its pages.
    """
    headers = {name: value for name, value in error.headers.items() if _is_header_text(name + value)}
    body = _encode(
        error.as_problem(call_id=call_id, base_url=base_url),
        error.as_problem(call_id=call_id, base_url=base_url, without_extra=True),
    )
    return Response(body, error.status, headers=headers, media_type=MEDIA_TYPE)


def log_truncated_response(error: Exception) -> None:
    """Log an error that was raised after the response had begun; Starlette wraps those with a handler."""
    cause = error.__cause__ if isinstance(error.__cause__, GatewayError) else error
    if isinstance(cause, GatewayError):
        _log.warning("a response was truncated", slug=cause.slug)
    else:
        log_unexpected_error(error)


def _encode(body: Mapping[str, Any], without_extra: Mapping[str, Any]) -> bytes:
    try:
        return exact_json.dumps(body)
    except TypeError:
        # An upstream's body may be nested more deeply than can be written.
        try:
            return exact_json.dumps(without_extra)
        except TypeError:
            return json.dumps(without_extra, default=lambda _: None).encode()


def _get_base_url(scope: Scope) -> str:
    """Return the gateway's public URL by its settings, or the path that a proxy has removed."""
    services = (scope.get("state") or {}).get("services")
    if services is None:
        return str(scope.get("root_path", "")).rstrip("/")
    base_url: str = services.settings.base_url
    return base_url


def _is_header_text(text: str) -> bool:
    return all(" " <= char <= "\xff" and char != "\x7f" for char in text)

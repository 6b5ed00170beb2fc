"""Tells clients of deprecated operations (`app.api.deprecation`): in each response, and in the contract."""

from typing import Any, Final

from fastapi import FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.authorisation import iter_routes
from app.api.deprecation import Deprecation, deprecation_of

_HEADERS: Final = {
    "Deprecation": "Since when the operation is deprecated (RFC 9745): `@` and seconds since 1970.",
    "Sunset": "From when on the operation may be gone (RFC 8594): an HTTP date.",
    "Link": 'The page about it with `rel="deprecation"` and `rel="sunset"`, and its replacement, if there is'
    ' one, with `rel="successor-version"` (RFC 8288).',
}


class DeprecationHeaders:
    """Middleware that adds the headers of a deprecated operation to each of its responses, also to errors."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add headers once its endpoint is known."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                deprecation = deprecation_of(scope.get("endpoint"))
                if deprecation is not None:
                    message = {
                        **message,
                        "headers": [*message.get("headers", ()), *_encode_headers(deprecation)],
                    }
            await send(message)

        await self.app(scope, receive, send_with_headers)


def install(app: FastAPI) -> None:
    """Add the middleware where an operation is deprecated; call it after the last edge.

    Raise ValueError for a route that is marked as deprecated, and declares no dates.
    """
    routes = list(iter_routes(app.routes))
    for route in routes:
        if getattr(route, "deprecated", None) and get_route_deprecation(route) is None:
            path = getattr(route, "path", "")
            raise ValueError(f"{path} is deprecated without dates: declare them with app.api.deprecation.")
    if any(get_route_deprecation(route) for route in routes):
        app.add_middleware(DeprecationHeaders)


def get_route_deprecation(route: BaseRoute) -> Deprecation | None:
    """Return what the endpoint of a route declares, None for an operation that stays."""
    return deprecation_of(getattr(route, "endpoint", None))


def describe(operation: dict[str, Any], deprecation: Deprecation) -> None:
    """Add a deprecation to an operation of the OpenAPI document, and its headers to all responses."""
    operation["deprecated"] = True
    operation["description"] = f"{operation.get('description', '')}\n\n{deprecation.sentence()}".strip()
    for response in operation["responses"].values():
        headers = response.setdefault("headers", {})
        for name, description in _HEADERS.items():
            # A list has links of its own.
            headers.setdefault(name, {"description": description, "schema": {"type": "string"}})


def _encode_headers(deprecation: Deprecation) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in deprecation.headers()]

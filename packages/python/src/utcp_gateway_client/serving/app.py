"""The tools of a collection over HTTP: an ASGI application with their UTCP manual, which needs no framework.

Source: ASGI 3.0, https://asgi.readthedocs.io/en/latest/specs/www.html; problem details by RFC 9457.
"""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs

from utcp_gateway_client.serving.manual import ManualVersion, manual
from utcp_gateway_client.tools import ToolCollection, ToolResult, TraceContext, traced_by

Scope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]

MAX_BODY_BYTES: Final = 1 << 20
_STATUSES: Final[Mapping[str, HTTPStatus]] = {
    "invalid_arguments": HTTPStatus.UNPROCESSABLE_ENTITY,
    "tool_error": HTTPStatus.UNPROCESSABLE_ENTITY,
    "failed": HTTPStatus.INTERNAL_SERVER_ERROR,
}


@dataclass(frozen=True, slots=True)
class _Response:
    status: HTTPStatus
    content: bytes
    content_type: str
    headers: Mapping[str, str]


class _Disconnected(Exception):
    """The client has left."""


class ToolsApp:
    """An ASGI application: `GET /utcp` is the manual, `POST /tools/{name}` a call with a JSON object as body.

    `token` is what clients must send as bearer token (RFC 6750); without one everybody may call. `base_url`
    is how clients reach the application, where that is not what the Host header and the mount say. `name` is
    that of the provider in the manual. `max_body_bytes` limits the arguments of a call. Raises ValueError
    for an empty token.
    """

    def __init__(
        self,
        tools: ToolCollection,
        *,
        token: str | None = None,
        base_url: str | None = None,
        name: str = "tools",
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        if token is not None and not token.strip():
            raise ValueError("The token is empty.")
        self.tools = tools
        self._token = token
        self._base_url = base_url
        self._name = name
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            try:
                response = await self._respond(scope, receive)
            except _Disconnected:
                return
            await _write(response, scope, send)

    async def _respond(self, scope: Scope, receive: Receive) -> _Response:
        if not self._is_authorised(scope):
            return _problem(
                HTTPStatus.UNAUTHORIZED,
                "This needs a valid bearer token.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        path = _path(scope)
        if path == "/utcp":
            if scope["method"] not in ("GET", "HEAD"):
                return _wrong_method("GET, HEAD")
            return self._manual(scope)
        name = path.removeprefix("/tools/")
        if not path.startswith("/tools/") or name not in self.tools:
            return _problem(HTTPStatus.NOT_FOUND, "There is no such tool, and no such path.")
        if scope["method"] != "POST":
            return _wrong_method("POST")
        return await self._call(name, scope, receive)

    def _is_authorised(self, scope: Scope) -> bool:
        if self._token is None:
            return True
        kind, _, given = _header(scope, b"authorization").partition(" ")
        expected = self._token.encode()
        return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), expected)

    def _manual(self, scope: Scope) -> _Response:
        versions = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("version", ["1"])
        if versions[-1] not in ("0", "1"):
            return _problem(HTTPStatus.UNPROCESSABLE_ENTITY, "The version of a manual is 0 or 1.")
        version: ManualVersion = 0 if versions[-1] == "0" else 1
        base = self._base_url or f"{scope.get('scheme', 'http')}://{_host(scope)}{scope.get('root_path', '')}"
        found = manual(
            self.tools, base_url=base, name=self._name, version=version, has_token=self._token is not None
        )
        return _Response(HTTPStatus.OK, json.dumps(found).encode(), "application/json", {})

    async def _call(self, name: str, scope: Scope, receive: Receive) -> _Response:
        media_type = _header(scope, b"content-type").partition(";")[0].strip().lower()
        if media_type != "application/json":
            # A page in a browser may not send this type to another origin without being allowed to.
            return _problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send the arguments as application/json.")
        body = await self._body(receive)
        if body is None:
            return _problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The arguments may have {self._max_body_bytes} bytes."
            )
        with traced_by(_trace(scope)):
            result = await _unless_disconnected(self.tools.execute_async(name, body), receive)
        if result.error is not None:
            errors = [{"pointer": each.pointer, "detail": each.message} for each in result.errors]
            return _problem(_STATUSES[result.error], result.message, errors=errors)
        if result.content is not None:
            return _Response(HTTPStatus.OK, result.content, "application/octet-stream", {})
        return _Response(HTTPStatus.OK, result.json.encode(), "application/json", {})

    async def _body(self, receive: Receive) -> bytes | None:
        """Return the body of a request; None for one that is too large."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            body += message.get("body", b"")
            if len(body) > self._max_body_bytes:
                return None
            if not message.get("more_body", False):
                return bytes(body)


async def _unless_disconnected(call: Awaitable[ToolResult], receive: Receive) -> ToolResult:
    """Return the result of a call; cancel it and raise _Disconnected where the client leaves before."""
    running = asyncio.ensure_future(call)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((running, leaving), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        raise _Disconnected
    finally:
        running.cancel()
        leaving.cancel()
        await asyncio.gather(running, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _write(response: _Response, scope: Scope, send: Send) -> None:
    headers = {
        "Content-Type": response.content_type,
        "Content-Length": str(len(response.content)),
        **response.headers,
    }
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status.value, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else response.content})


def _path(scope: Scope) -> str:
    """Return the path below where the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _header(scope: Scope, name: bytes) -> str:
    found: list[bytes] = [value for key, value in scope["headers"] if key.lower() == name]
    return found[-1].decode("latin-1") if found else ""


def _trace(scope: Scope) -> TraceContext | None:
    traceparent = _header(scope, b"traceparent")
    return TraceContext(traceparent, _header(scope, b"tracestate")) if traceparent else None


def _host(scope: Scope) -> str:
    host = _header(scope, b"host")
    if host or not scope.get("server"):
        return host or "localhost"
    address, port = scope["server"]
    return f"{address}:{port}"


def _wrong_method(allowed: str) -> _Response:
    return _problem(HTTPStatus.METHOD_NOT_ALLOWED, f"The methods are {allowed}.", headers={"Allow": allowed})


def _problem(
    status: HTTPStatus,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[Mapping[str, str]] = (),
) -> _Response:
    body: dict[str, Any] = {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}
    if errors:
        body["errors"] = errors
    return _Response(status, json.dumps(body).encode(), "application/problem+json", headers or {})

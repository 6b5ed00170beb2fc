"""Requests of the console to the HTTP API of the same process, without a connection.

A page never reads the database or a service: whatever it shows or does is an operation of the API, with its
rules, limits, masking and records. The application is called as an ASGI server would call it; in place of a
key, the state of the request has the principal of the session (`app.access.authorise`), which nobody can
send.

    request of the browser --> page --> ApiClient --> the application: middleware, route, problem details
"""

import asyncio
import contextlib
import json as standard_json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

import orjson
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Scope

from app.access.authorise import SESSION_PRINCIPAL, PrincipalSource
from app.core import exact_json
from app.core.errors import Forbidden
from app.core.media_types import parse_essence
from app.security.principal import Principal

Query = Mapping[str, Any] | Sequence[tuple[str, Any]]

# Bytes of a streamed response that wait for their reader.
_MAX_QUEUED_PARTS: Final = 64


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A whole response of the API."""

    status: int
    headers: Headers
    body: bytes = field(repr=False)

    def json(self) -> Any:
        """Return the body as JSON; None for an empty one."""
        return orjson.loads(self.body) if self.body else None

    @property
    def is_problem(self) -> bool:
        """Whether the body is problem details (RFC 9457)."""
        return parse_essence(self.headers.get("content-type", "")) == "application/problem+json"


class ApiProblem(Exception):
    """The API rejected a request: `problem` is its problem details."""

    def __init__(self, response: ApiResponse) -> None:
        super().__init__(f"status {response.status}")
        self.status = response.status
        self.headers = response.headers
        self.problem: dict[str, Any] = response.json() if response.is_problem else {}

    @property
    def slug(self) -> str:
        """The last part of the problem's type, such as `not-found`."""
        return str(self.problem.get("type", "")).rpartition(":")[2]

    @property
    def title(self) -> str:
        """What kind of problem it is."""
        return str(self.problem.get("title") or "The request failed")

    @property
    def detail(self) -> str:
        """What happened."""
        return str(self.problem.get("detail", ""))

    @property
    def hint(self) -> str:
        """What to do."""
        return str(self.problem.get("hint", ""))

    @property
    def field_errors(self) -> list[dict[str, Any]]:
        """The errors of fields, each with `pointer` and `detail`."""
        return list(self.problem.get("errors") or ())


class ConfirmationRequired(Exception):
    """An operation needs that the key of the session was presented a short time ago, and it was not."""


class ApiClient:
    """Calls operations of the API for the request of one page, as the principal that `principal` returns.

    Where `is_recent` returns false, an operation whose route declares `recent=True` is rejected.
    """

    def __init__(
        self,
        request: Request,
        principal: Callable[[], Awaitable[Principal]],
        *,
        is_recent: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._request = request
        self._app: ASGIApp = request.app
        self._principal = principal
        self._is_recent = is_recent
        self._was_rejected = False

    async def get(self, path: str, query: Query = (), **headers: str) -> Any:
        """Return the JSON of a successful GET; raise ApiProblem for any other response."""
        return (await self.send("GET", path, query=query, headers=headers)).json()

    async def post(self, path: str, json: Any = None, query: Query = (), **headers: str) -> Any:
        """Return the JSON of a successful POST; raise ApiProblem for any other response."""
        return (await self.send("POST", path, query=query, json=json, headers=headers)).json()

    async def put(self, path: str, json: Any, query: Query = (), **headers: str) -> Any:
        """Return the JSON of a successful PUT; raise ApiProblem for any other response."""
        return (await self.send("PUT", path, query=query, json=json, headers=headers)).json()

    async def patch(self, path: str, json: Any, query: Query = (), **headers: str) -> Any:
        """Return the JSON of a successful PATCH; raise ApiProblem for any other response."""
        return (await self.send("PATCH", path, query=query, json=json, headers=headers)).json()

    async def delete(self, path: str, query: Query = (), **headers: str) -> Any:
        """Return the JSON of a successful DELETE, None without content; raise ApiProblem otherwise."""
        return (await self.send("DELETE", path, query=query, headers=headers)).json()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        json: Any = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> ApiResponse:
        """Return the response of an operation; with `check`, raise ApiProblem for a status but 2xx and 304.

        Raise ConfirmationRequired where the operation needs a key presented a short time ago.

        `path` is percent-encoded (`path_of`). `json` is sent as JSON, `body` as it is, with the
        `Content-Type` of `headers`, in whose names `_` stands for `-`.
        """
        parts: list[bytes] = []
        start: Message = {}
        done = asyncio.Event()

        async def receive_more() -> Message:
            await done.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        scope, content = self._build_scope(method, path, query, json, body, headers)
        try:
            await self._app(scope, _build_receive(content, receive_more), send)
        finally:
            done.set()
        self._require_confirmed()
        response = ApiResponse(start["status"], Headers(raw=list(start["headers"])), b"".join(parts))
        if check and not (200 <= response.status < 300 or response.status == 304):
            raise ApiProblem(response)
        return response

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        json: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator["StreamedResponse"]:
        """Yield a response whose body is read while it is written; at the end of the block it is abandoned.

        Raise ApiProblem where it has no status 2xx.
        """
        messages: asyncio.Queue[Message | None] = asyncio.Queue(_MAX_QUEUED_PARTS)
        abandoned = asyncio.Event()

        async def receive_more() -> Message:
            await abandoned.wait()
            return {"type": "http.disconnect"}

        scope, content = self._build_scope(method, path, query, json, None, headers)

        async def run() -> None:
            try:
                await self._app(scope, _build_receive(content, receive_more), messages.put)
            finally:
                await messages.put(None)

        running = asyncio.create_task(run(), name="console-stream")
        try:
            start = await messages.get()
            if start is None:
                await running
                raise ConnectionError("The response of the API ended before it began.")
            response = StreamedResponse(start["status"], Headers(raw=list(start["headers"])), messages)
            self._require_confirmed()
            if not 200 <= response.status < 300:
                body = b"".join([part async for part in response])
                raise ApiProblem(ApiResponse(response.status, response.headers, body))
            yield response
        finally:
            abandoned.set()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await running

    async def _find_principal(self, *, recent: bool = False) -> Principal:
        """Return the principal; raise Forbidden where the key must be presented again."""
        if recent and self._is_recent is not None and not await self._is_recent():
            self._was_rejected = True
            raise Forbidden("The key of the session was presented too long ago: present it again.")
        return await self._principal()

    def _require_confirmed(self) -> None:
        if self._was_rejected:
            raise ConfirmationRequired

    def _build_scope(
        self,
        method: str,
        path: str,
        query: Query,
        json: Any,
        body: bytes | None,
        headers: Mapping[str, str] | None,
    ) -> tuple[Scope, bytes]:
        outer = self._request.scope
        sent: dict[str, str] = {
            "host": self._request.headers.get("host", "localhost"),
            "accept": "application/json",
        }
        content = body or b""
        if json is not None:
            content = _write_json(json)
            sent["content-type"] = "application/json"
        if content or method in ("POST", "PUT", "PATCH"):
            sent["content-length"] = str(len(content))
        sent |= {name.replace("_", "-").lower(): value for name, value in (headers or {}).items()}
        root = outer.get("root_path", "")
        source: PrincipalSource = self._find_principal
        state = {**outer["state"], SESSION_PRINCIPAL: source}
        state.pop("principal", None)
        scope: Scope = {
            "type": "http",
            "asgi": outer["asgi"],
            "http_version": "1.1",
            "method": method,
            "scheme": outer.get("scheme", "http"),
            "path": root + unquote(path),
            "raw_path": (root + path).encode("ascii"),
            "query_string": _encode_query(query).encode("ascii"),
            "root_path": root,
            "headers": [(name.encode("latin-1"), _encode_header(value)) for name, value in sent.items()],
            "client": outer.get("client"),
            "server": outer.get("server"),
            "state": state,
            "extensions": {},
        }
        return scope, content


class StreamedResponse:
    """A response whose body is iterated over while it is written."""

    def __init__(self, status: int, headers: Headers, messages: "asyncio.Queue[Message | None]") -> None:
        self.status = status
        self.headers = headers
        self._messages = messages

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body."""
        while (message := await self._messages.get()) is not None:
            if message["type"] != "http.response.body":
                continue
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                return


def path_of(*segments: str) -> str:
    """Return the path of a resource: each segment is percent-encoded."""
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def _encode_query(query: Query) -> str:
    """Return a query string without the parameters that are None or empty; a list is repeated."""
    pairs: Iterable[tuple[str, Any]] = query.items() if isinstance(query, Mapping) else query
    flat: list[tuple[str, str]] = []
    for name, value in pairs:
        values = value if isinstance(value, list | tuple) else (value,)
        flat += [(name, _write_text(one)) for one in values if one is not None and one != ""]
    return urlencode(flat, quote_via=quote)


def _write_json(value: Any) -> bytes:
    try:
        return exact_json.dump_strictly(value)
    except TypeError:
        # Integers beyond 64 bits, lone surrogates: the API says what is wrong with them.
        return standard_json.dumps(value).encode("ascii")


def _encode_header(value: str) -> bytes:
    """Return the value of a header field; of what somebody typed, the API judges the characters."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode(errors="replace")


def _write_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _build_receive(content: bytes, then: Any) -> Any:
    """Return an ASGI `receive` that gives the whole body first, and waits after it."""
    is_sent = False

    async def receive() -> Message:
        nonlocal is_sent
        if is_sent:
            message: Message = await then()
            return message
        is_sent = True
        return {"type": "http.request", "body": content, "more_body": False}

    return receive

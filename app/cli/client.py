"""The client of the gateway's HTTP API: the only file outside `outbound/` that builds an HTTP client.

It follows no redirects (the key would travel to an address that nobody named) and reads no proxy settings
from the environment.
"""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import orjson

from app.cli.outcome import BadInput, Refused, Unreachable

_CONNECT_SECONDS = 5.0
#: Longer than the gateway's own limit for one conversion, if it does not answer imports with 202.
_ANSWER_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the gateway answered; `headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON, None when there is none; `Unreachable` when it is something else."""
        if not self.body:
            return None
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            raise Unreachable("The answer is not JSON: is this the address of a gateway?") from None


class Gateway:
    """A running gateway. Every method raises `Refused` for a problem and `Unreachable` without an answer."""

    def __init__(self, url: str, *, key: str | None = None, ca_file: Path | None = None) -> None:
        self.url = _checked(url)
        headers = {"Accept": "application/json", "User-Agent": "utcp-gateway-cli"}
        if key:
            headers["Authorization"] = f"Bearer {_header_safe(key)}"
        self._http = httpx2.Client(
            base_url=self.url,
            headers=headers,
            verify=_trust(ca_file),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, *, query: Mapping[str, Any] | None = None) -> Answer:
        """GET; `query` members that are None are left out, lists are repeated."""
        return self.send("GET", path, query=query)

    def delete(self, path: str) -> Answer:
        """DELETE."""
        return self.send("DELETE", path)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request with a JSON value or with raw bytes as its body; the whole answer is read."""
        with self.stream(method, path, query=query, json=json, content=content, headers=headers) as response:
            return _answer(response)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[httpx2.Response]:
        """The same, with the body of a success still unread; a failure raises before the block is entered."""
        sent = dict(headers or {})
        if json is not None:
            content = orjson.dumps(json)
        if content is not None:
            sent.setdefault("Content-Type", "application/json")
        request = self._http.build_request(method, path, params=_query(query), content=content, headers=sent)
        with _transport_errors(self.url):
            response = self._http.send(request, stream=True)
            try:
                if not response.is_success:
                    raise _refusal(_answer(response))
                yield response
            finally:
                response.close()


def _answer(response: httpx2.Response) -> Answer:
    return Answer(response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.read())


def _query(query: Mapping[str, Any] | None) -> httpx2.QueryParams | None:
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is not None:
                text = str(item).lower() if isinstance(item, bool) else str(item)
                pairs.append((name, text))
    return httpx2.QueryParams(tuple(pairs)) if pairs else None


def _checked(url: str) -> str:
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise BadInput("The gateway's address (--url) is not a URL.") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise BadInput("The gateway's address (--url) must begin with http:// or https:// and name a host.")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise BadInput(
            "The gateway's address (--url) holds neither a user name, nor a query, nor a fragment."
        )
    return str(parsed).rstrip("/")


def _header_safe(key: str) -> str:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise BadInput("The API key holds characters that no key has: is it the right file or variable?")
    return key


def _trust(ca_file: Path | None) -> ssl.SSLContext | bool:
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError):
        raise BadInput(f"The CA bundle {ca_file} cannot be read.") from None


@contextmanager
def _transport_errors(url: str) -> Iterator[None]:
    """Turn the transport's exceptions into sentences with the address that was tried."""
    try:
        yield
    except httpx2.ConnectTimeout:
        raise Unreachable(f"{url} did not accept a connection within {_CONNECT_SECONDS:.0f} s.") from None
    except httpx2.TimeoutException:
        raise Unreachable(f"{url} gave no answer within {_ANSWER_SECONDS:.0f} s.") from None
    except httpx2.ConnectError as error:
        cause = error.__cause__ or error.__context__
        tls = isinstance(cause, ssl.SSLError) or "SSL" in str(error)
        reason = (
            "its TLS certificate is not trusted (--ca-file)" if tls else "nothing accepts connections there"
        )
        raise Unreachable(f"{url}: {reason}. Is it running (`utcp-gateway serve`), is --url right?") from None
    except httpx2.RequestError:
        raise Unreachable(f"{url} broke the connection off.") from None


def _refusal(answer: Answer) -> Refused | Unreachable:
    """The failure that a status of 300 or more stands for."""
    if 300 <= answer.status < 400:
        target = answer.headers.get("location", "elsewhere")
        return Unreachable(
            f"The address redirects to {target}; redirects are not followed: name it with --url."
        )
    try:
        problem = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        problem = None
    if isinstance(problem, dict) and "title" in problem:
        return Refused(problem, status=answer.status)
    detail = f"HTTP {answer.status} without problem details: is this the address of a gateway?"
    return Refused(
        {"title": "The answer does not look like a gateway's", "detail": detail}, status=answer.status
    )

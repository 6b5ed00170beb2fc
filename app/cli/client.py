"""The client of the gateway's HTTP API: the only file outside `outbound/` that builds an HTTP client.

It follows no redirects (the key would travel to an address that nobody named) and reads no proxy settings
from the environment.
"""

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import orjson

from app.cli.errors import EnvelopeResponse, GatewayUnreachable, InputError, ProblemResponse
from app.cli.values import ENVELOPE_TYPE, Files
from app.core import exact_json

_CONNECT_SECONDS = 5.0
#: Longer than the gateway's own limit for one conversion, in case it does not respond to imports with 202.
_RESPONSE_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class GatewayResponse:
    """A response of the gateway, read whole; `headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON, None for an empty one; raise GatewayUnreachable for anything else."""
        return self._read_json(orjson.loads)

    def exact_json(self) -> Any:
        """Return and raise as `json` does; numbers keep their digits."""
        return self._read_json(exact_json.load_exactly)

    def _read_json(self, load: Callable[[bytes], Any]) -> Any:
        if not self.body:
            return None
        try:
            return load(self.body)
        except orjson.JSONDecodeError:
            raise GatewayUnreachable("The response is not JSON: is this the address of a gateway?") from None


class GatewayClient:
    """A client of a running gateway. Close it, or use it as a context manager.

    Every request raises ProblemResponse for problem details and GatewayUnreachable without a response.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        ca_file: Path | None = None,
        seconds: float | None = None,
    ) -> None:
        """Set up the client; `seconds` is the longest time for a response, 180 by default.

        Raise InputError for a `url`, a `key` or a `ca_file` that cannot be used."""
        self.url = _check_url(url)
        headers = {"Accept": "application/json", "User-Agent": "utcp-gateway-cli"}
        if key:
            headers["Authorization"] = f"Bearer {_check_key(key)}"
        self._http = httpx2.Client(
            base_url=self.url,
            headers=headers,
            verify=_choose_verification(self.url, ca_file),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(
                seconds or _RESPONSE_SECONDS, connect=min(seconds or _CONNECT_SECONDS, _CONNECT_SECONDS)
            ),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, path: str, *, query: Mapping[str, Any] | None = None) -> GatewayResponse:
        """Send GET and return the response. Members of `query` that are None are omitted, lists repeated."""
        return self.send("GET", path, query=query)

    def delete(self, path: str) -> GatewayResponse:
        """Send DELETE and return the response."""
        return self.send("DELETE", path)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | None = None,
        files: Files | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> GatewayResponse:
        """Send a request and return the response, read whole.

        Its body is a JSON value, raw bytes (of JSON, unless a Content-Type is given), or multipart/form-data.
        """
        body: dict[str, Any] = {"json": json, "content": content, "files": files}
        with self.stream(method, path, query=query, headers=headers, **body) as response:
            return _read(response)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | None = None,
        files: Files | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[httpx2.Response]:
        """Send a request as `send` does, and yield a successful response whose body is not read yet."""
        sent = dict(headers or {})
        if json is not None:
            content = exact_json.dumps(json)
        if content is not None:
            sent.setdefault("Content-Type", "application/json")
        request = self._http.build_request(
            method, path, params=_build_query(query), content=content, files=files, headers=sent
        )
        with _convert_transport_errors(self.url):
            response = self._http.send(request, stream=True)
            try:
                if not response.is_success:
                    raise _convert_error(_read(response))
                yield response
            finally:
                response.close()


def _read(response: httpx2.Response) -> GatewayResponse:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return GatewayResponse(response.status_code, headers, response.read())


def _build_query(query: Mapping[str, Any] | None) -> httpx2.QueryParams | None:
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is not None:
                text = str(item).lower() if isinstance(item, bool) else str(item)
                pairs.append((name, text))
    return httpx2.QueryParams(tuple(pairs)) if pairs else None


def _check_url(url: str) -> str:
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise InputError("The gateway's address (--url) is not a URL.") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InputError("The gateway's address (--url) must begin with http:// or https:// and name a host.")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise InputError("The gateway's address (--url) must not have a user name, a query or a fragment.")
    return str(parsed).rstrip("/")


def _check_key(key: str) -> str:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(
            "The API key has characters that do not occur in keys: is it the right file or variable?"
        )
    return key


def _choose_verification(url: str, ca_file: Path | None) -> ssl.SSLContext | bool:
    """Return how certificates are verified. Without TLS there are none, and loading the CA bundle, a tenth of
    the time of a command, is saved.
    """
    if ca_file is None:
        return url.startswith("https://")
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError):
        raise InputError(f"The CA bundle {ca_file} cannot be read.") from None


@contextmanager
def _convert_transport_errors(url: str) -> Iterator[None]:
    """Raise GatewayUnreachable with a sentence for an exception of the transport."""
    try:
        yield
    except httpx2.ConnectTimeout:
        raise GatewayUnreachable(
            f"{url} did not accept a connection within {_CONNECT_SECONDS:.0f} s."
        ) from None
    except httpx2.TimeoutException:
        raise GatewayUnreachable(f"{url} sent no response within {_RESPONSE_SECONDS:.0f} s.") from None
    except httpx2.ConnectError as error:
        if "WRONG_VERSION_NUMBER" in str(error):
            raise GatewayUnreachable(
                f"{url} speaks HTTP without TLS: use http:// in place of https://."
            ) from None
        cause = error.__cause__ or error.__context__
        tls = isinstance(cause, ssl.SSLError) or "SSL" in str(error)
        reason = (
            "its TLS certificate is not trusted (--ca-file)" if tls else "nothing accepts connections there"
        )
        raise GatewayUnreachable(
            f"{url}: {reason}. Is it running (`utcp-gateway serve`), is --url right?"
        ) from None
    except httpx2.RequestError:
        raise GatewayUnreachable(f"{url} closed the connection.") from None


def _convert_error(response: GatewayResponse) -> ProblemResponse | GatewayUnreachable | EnvelopeResponse:
    """Return the error of a response with a status of 300 or more."""
    if 300 <= response.status < 400:
        target = response.headers.get("location", "elsewhere")
        return GatewayUnreachable(
            f"The address redirects to {target}; redirects are not followed: name it with --url."
        )
    try:
        problem = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        problem = None
    if isinstance(problem, dict) and "title" in problem:
        return ProblemResponse(problem, status=response.status)
    if response.headers.get("content-type", "") == ENVELOPE_TYPE:
        return EnvelopeResponse(response.body)
    detail = f"HTTP {response.status} without problem details: is this the address of a gateway?"
    return ProblemResponse(
        {"title": "The response is not from a gateway", "detail": detail}, status=response.status
    )

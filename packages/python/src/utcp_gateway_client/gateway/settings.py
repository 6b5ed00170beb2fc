"""Where the gateway is, and with which key requests are sent; the key is in no repr."""

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final, Literal

import httpx2

from utcp_gateway_client.keys import require_key

URL_VARIABLE: Final = "UTCP_GATEWAY_URL"
KEY_VARIABLE: Final = "UTCP_GATEWAY_KEY"
Strict = Literal["auto"] | bool
"""Whether tools are exported for constrained decoding; `auto` where nothing is lost."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a client.

    `timeout` are the seconds of a request with all of its retries, `retries` how often it is repeated at
    most.
    """

    url: str
    key: str | None = field(repr=False)
    toolset: str | None
    timeout: float
    retries: int
    strict: Strict

    def path(self, path: str) -> str:
        """Return `path`, such as `/tool-calls`: that of the toolset if there is one."""
        if self.toolset is not None:
            return f"/toolsets/{self.toolset}{path}"
        return f"/tools{path}" if path in {"/search", "/export"} else path


def read_settings(
    url: str | None,
    key: str | None,
    toolset: str | None,
    *,
    timeout: float,
    retries: int,
    strict: Strict,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Return the settings, with URL and key of the environment where they are not given; raise ValueError."""
    url = url or environment.get(URL_VARIABLE)
    if not url:
        raise ValueError(f"Give the gateway's URL, or set {URL_VARIABLE}.")
    key = environment.get(KEY_VARIABLE) if key is None else key
    require_key(key)
    if toolset is not None and not _NAME.fullmatch(toolset):
        raise ValueError("This is no name of a toolset.")
    if timeout <= 0 or retries < 0:
        raise ValueError("The timeout must be above 0, and retries must not be negative.")
    return Settings(_checked_url(url), key or None, toolset, timeout, retries, strict)


def _checked_url(url: str) -> str:
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise ValueError("The gateway's URL cannot be read.") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError("The gateway's URL begins with http:// or https:// and a host.")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ValueError("The gateway's URL has no user, query or fragment.")
    return url.rstrip("/")


class KeyAuth(httpx2.Auth):
    """Adds the API key to each request."""

    def __init__(self, key: str) -> None:
        self._key = key

    def auth_flow(self, request: httpx2.Request):  # type: ignore[no-untyped-def] # noqa: ANN201
        """Yield the request with the key."""
        request.headers["Authorization"] = f"Bearer {self._key}"
        yield request


def user_agent() -> str:
    """Return the header User-Agent."""
    return f"utcp-gateway-client/{version('utcp-gateway-client')} python/{platform.python_version()}"

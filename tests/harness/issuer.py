"""An issuer of access tokens: a server that publishes its keys, with which tokens are signed in the test."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from tests.harness.beside import web_server


@cache
def get_first_key() -> RSAKey:
    """Return the key with which an issuer signs, until a test changes it."""
    return RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})


@cache
def get_second_key() -> ECKey:
    """Return another key, of another algorithm."""
    return ECKey.generate_key("P-256", {"kid": "second", "use": "sig"})


class Issuer:
    """An authorisation server: `keys` are those that it publishes, `requests` the paths that were read."""

    def __init__(self) -> None:
        self.keys: list[Any] = [get_first_key()]
        self.others: list[object] = []
        self.requests: list[str] = []
        self.is_down = False
        self.url = ""
        self.keys_url = ""

    def token(self, *, key: Any = None, algorithm: str = "RS256", header: Any = None, **changes: Any) -> str:
        """Return an access token of user-7 with changed claims; a claim that is None is left out."""
        key = key or get_first_key()
        claims = {
            "iss": self.url,
            "sub": "user-7",
            "exp": int(time.time()) + 600,
            "scope": "tools:read tools:call",
        }
        claims = {name: value for name, value in (claims | changes).items() if value is not None}
        head = {"alg": algorithm, "typ": "at+jwt", "kid": key.kid} | (header or {})
        return jwt.encode(head, claims, key, algorithms=[algorithm])

    async def respond(self, request: web.Request) -> web.Response:
        self.requests.append(request.path)
        if self.is_down:
            return web.Response(status=503)
        if request.path == "/.well-known/oauth-authorization-server":
            return web.json_response({"issuer": self.url, "jwks_uri": self.keys_url or f"{self.url}/keys"})
        if request.path == "/keys":
            keys = [key.as_dict(private=False) for key in self.keys]
            return web.json_response({"keys": [*self.others, *keys]})
        return web.Response(status=404)


@asynccontextmanager
async def run_issuer() -> AsyncIterator[Issuer]:
    """Run an issuer on a free port of 127.0.0.1."""
    found = Issuer()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", found.respond)
    async with web_server(application) as found.url:
        yield found

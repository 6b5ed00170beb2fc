"""Signing in to the console as its form does, once for each key, because sign-ins are limited."""

from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.browser.console.pages import POST_PATHS
from tests.harness.gateway import RunningGateway

PATH = "/console/sign-in"


class SignIn:
    """The sessions of a test run by gateway and key.

    Where the console has no sign-in page yet, the key is sent in a header in place of a session.
    """

    def __init__(self) -> None:
        self._cookies: dict[tuple[str, str], dict[str, str]] = {}

    def cookies(self, gateway: RunningGateway, key: str) -> dict[str, str]:
        """Return the cookies of the session of a key; the form of the sign-in page makes it."""
        found = self._cookies.get((gateway.url, key))
        if found is None:
            with gateway.client("") as client:
                client.headers.update({"Origin": gateway.url, "Sec-Fetch-Site": "same-origin"})
                response = client.post(PATH, data={"key": key})
                assert response.status_code == 303, response.text
                found = self._cookies[gateway.url, key] = dict(client.cookies)
        return found

    def forget(self, gateway: RunningGateway, key: str) -> None:
        """Sign in anew the next time."""
        self._cookies.pop((gateway.url, key), None)

    def options(self, gateway: RunningGateway, key: str) -> dict[str, Any]:
        """Return the options of a context of the browser that is signed in."""
        if PATH not in POST_PATHS:
            return {"extra_http_headers": {"X-API-Key": key}}
        host = urlsplit(gateway.url).hostname or ""
        cookies = [
            {
                "name": name, "value": value, "domain": host, "path": "/", "expires": -1,
                "httpOnly": True, "secure": False, "sameSite": "Strict",
            }
            for name, value in self.cookies(gateway, key).items()
        ]  # fmt: skip
        return {"storage_state": {"cookies": cookies, "origins": []}}

    def client(self, gateway: RunningGateway, key: str, **options: Any) -> httpx2.Client:
        """Return a client of the pages that is signed in, and submits forms as the browser does."""
        if PATH not in POST_PATHS:
            client = gateway.client("", **options)
            client.headers["X-API-Key"] = key
            return client
        client = gateway.client("", cookies=self.cookies(gateway, key), **options)
        client.headers.update({"Origin": gateway.url, "Sec-Fetch-Site": "same-origin"})
        return client

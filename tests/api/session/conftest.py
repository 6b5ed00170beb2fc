"""A gateway whose web console a test uses as a browser would, without script."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any

import httpx2
import pytest

from tests.harness.application import Application, run_application
from tests.harness.plain_http import WITHOUT_CERTIFICATES
from tests.harness.profiles import Applications


class PlainBrowser(httpx2.AsyncClient):
    """A client with cookies that says of its forms where they come from, and follows no redirect."""

    def __init__(self, url: str) -> None:
        super().__init__(base_url=url, trust_env=False, verify=WITHOUT_CERTIFICATES, timeout=30)
        self.own = {"Origin": url, "Sec-Fetch-Site": "same-origin"}

    async def submit(
        self, path: str, headers: dict[str, str] | None = None, **fields: str
    ) -> httpx2.Response:
        """Submit a form of a page of the gateway."""
        return await self.post(path, data=fields, headers=self.own if headers is None else headers)

    async def sign_in(self, key: str, **fields: str) -> httpx2.Response:
        """Submit the form of the sign-in page."""
        return await self.submit("/console/sign-in", key=key, **fields)

    @property
    def session(self) -> str | None:
        """The text of the session's cookie."""
        return next((one.value for one in self.cookies.jar if "utcp-session" in one.name), None)


def key_of(client: httpx2.AsyncClient) -> str:
    """Return the text of a client's key."""
    return client.headers["Authorization"].removeprefix("Bearer ")


def text_of(response: httpx2.Response) -> str:
    """Return the text of a page without elements."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.text)).split())


@pytest.fixture(scope="module")
async def application(applications: Applications) -> Application:
    return await applications.get()


@pytest.fixture
async def browser(application: Application) -> AsyncIterator[PlainBrowser]:
    async with PlainBrowser(application.url) as client:
        yield client


@pytest.fixture
def configured(application: Application) -> Any:
    """Run a gateway with further settings on the same database."""

    @asynccontextmanager
    async def run(**settings: Any) -> AsyncIterator[Application]:
        async with run_application(application.services.settings.model_copy(update=settings)) as running:
            yield running

    return run

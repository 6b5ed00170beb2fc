"""Recordings behind a real server, with an upstream that counts, and gives a new answer each time."""

import asyncio
from dataclasses import dataclass, field

import httpx2
import pytest
from aiohttp import web

from tests.api.tools.conftest import api, served
from tests.harness.beside import web_server
from tests.harness.plain_http import WITHOUT_CERTIFICATES

__all__ = ["api", "served"]

SECRET = "canary-of-the-credential-5b1f"
OWN_SECRET = "canary-of-the-upstream-77aa"
TOKEN = "canary-of-the-token-31c0"
INPUTS = {
    "type": "object",
    "properties": {
        "q": {"type": "string"},
        "limit": {"type": "number"},
        "at": {"type": "string"},
        "pin": {"type": "string", "writeOnly": True},
    },
    "additionalProperties": False,
}
OUTPUTS = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "q": {"type": "string"}},
    "required": ["number"],
}
ALL = ("tools:read", "tools:call", "calls:read")


@dataclass
class Site:
    """A counting upstream. `requests` has the path of each request; `tokens` counts token requests."""

    url: str = ""
    requests: list[str] = field(default_factory=list)
    tokens: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def count(self):
        return len(self.requests)

    async def search(self, request):
        self.requests.append(request.raw_path)
        body = {"number": self.count, "q": request.query.get("q", ""), "exact": 0.1}
        return web.json_response(
            body, headers={"ETag": '"1"', "Link": '<https://a.example/?page=2>; rel="next"'}
        )

    async def fail(self, request):
        self.requests.append(request.raw_path)
        headers = {"Retry-After": "3"}
        body = {"detail": f"no {self.count}", "key": request.headers.get("X-Key", "")}
        return web.json_response(body, status=int(request.query.get("q", 404)), headers=headers)

    async def echo(self, request):
        """Repeats the credential in headers and body, and gives a secret of its own."""
        self.requests.append(request.raw_path)
        key = request.headers.get("X-Key", "")
        body = {
            "key": key,
            "text": f"Bearer {OWN_SECRET}",
            "access_token": OWN_SECRET,
            "pin": request.query.get("pin"),
        }
        headers = {"X-Echo": key, "Set-Cookie": f"session={OWN_SECRET}", "ETag": f'"{key}"'}
        return web.json_response(body, headers=headers)

    async def events(self, request):
        self.requests.append(request.raw_path)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            for number in range(int(request.query.get("q", 3))):
                await response.write(b'id: %d\ndata: {"n":%d,"run":%d}\n\n' % (number, number, self.count))
                await asyncio.sleep(0.01)
        except (asyncio.CancelledError, ConnectionResetError):
            self.left.set()
            raise
        return response

    async def large(self, request):
        self.requests.append(request.raw_path)
        return web.Response(body=b"x" * int(request.query["q"]), content_type="text/plain")

    async def pages(self, request):
        self.requests.append(request.raw_path)
        page = int(request.query.get("page", 1))
        return web.json_response({"items": [page] if page < 4 else []})

    async def token(self, request):
        self.tokens += 1
        return web.json_response({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})


@pytest.fixture
async def upstream():
    site = Site()
    application = web.Application()
    application.router.add_post("/token", site.token)
    for name in ("search", "fail", "echo", "events", "large", "pages"):
        application.router.add_route("*", f"/{name}", getattr(site, name))
    async with web_server(application, handler_cancellation=True) as site.url:
        yield site


@pytest.fixture
async def library(api, upstream):
    """A provider with a tool for each path of the upstream."""
    provider = await api.provider("library", tags=["public"])
    for name in ("search", "fail", "large"):
        await api.tool(provider, name, {"url": f"{upstream.url}/{name}"}, inputs=INPUTS, outputs=OUTPUTS)
    await api.tool(provider, "write", {"url": f"{upstream.url}/search", "http_method": "POST"}, inputs=INPUTS)
    await api.tool(
        provider, "events", {"url": f"{upstream.url}/events", "call_template_type": "sse"}, inputs=INPUTS
    )
    await api.tool(provider, "stream", {"url": f"{upstream.url}/events"}, inputs=INPUTS)
    return provider


@pytest.fixture
async def admin(api, library):
    return await api.client("admin")


class Keys:
    """Makes clients whose keys have an upstream mode."""

    def __init__(self, api, admin):
        self._api, self._admin = api, admin
        self.ids = {}

    async def make(self, mode=None, recording=None, *, scopes=ALL, **members):
        body = {"name": f"key {mode}", "scopes": list(scopes), **members}
        if mode is not None:
            seed = body.pop("seed", None)
            body["upstream"] = {"mode": mode} | ({"recording": recording} if recording else {})
            body["upstream"] |= {"seed": seed} if seed is not None else {}
        made = await self._admin.post("/keys", json=body)
        assert made.status_code == 201, made.text
        client = httpx2.AsyncClient(
            base_url=self._api.url,
            headers={"Authorization": f"Bearer {made.json()['key']}"},
            trust_env=False,
            verify=WITHOUT_CERTIFICATES,
            timeout=20,
        )
        self._api.application.clients.append(client)
        self.ids[client] = made.json()["id"]
        return client


@pytest.fixture
async def keys(api, admin):
    return Keys(api, admin)


@pytest.fixture
async def recording(admin):
    """An empty recording of the name `r`."""
    made = await admin.post("/recordings", json={"name": "r"})
    assert made.status_code == 201, made.text
    return made.json()


@pytest.fixture
async def recorder(keys, recording):
    return await keys.make("record", "r")


@pytest.fixture
async def player(keys, recording):
    return await keys.make("replay", "r")


@pytest.fixture
def call():
    """Calls a tool of the provider `library`."""

    async def call(client, name, *, run=None, expect=200, headers=None, **arguments):
        sent = dict(headers or {})
        if run is not None:
            sent["X-Recording-Run"] = run
        response = await client.post(f"/tools/library.{name}/call", json=arguments, headers=sent)
        assert response.status_code == expect, response.text
        return response

    return call

"""A gateway with tools that some keys may not use, and toolsets of them, behind a real server."""

import pytest
from aiohttp import web

from tests.harness.beside import web_server
from tests.harness.issuer import run_issuer


class Upstream:
    """An upstream that answers everything, and counts what it got."""

    def __init__(self):
        self.url = ""
        self.paths = []

    async def respond(self, request):
        self.paths.append(request.path)
        if request.path == "/listStars":
            return web.json_response(
                [{"name": f"star {number}", "note": "x" * 100} for number in range(2000)]
            )
        return web.json_response({"path": request.path})


@pytest.fixture(scope="module")
async def upstream():
    running = Upstream()
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", running.respond)
    async with web_server(application) as running.url:
        yield running


@pytest.fixture(scope="session")
async def issuer():
    async with run_issuer() as running:
        yield running


@pytest.fixture(scope="module")
async def gateway_app(applications, issuer):
    return await applications.get(
        oauth_issuer=issuer.url, oauth_resources="gateway", oauth_providers_claim="apis"
    )


def manual(url, *names):
    """A manual of tools that GET the upstream; a name with a star POSTs."""
    return {
        "utcp_version": "1.0.1",
        "manual_version": "1.0.0",
        "tools": [
            {
                "name": name.strip("*"),
                "description": f"Tool number {number}.",
                "inputs": {"type": "object", "properties": {"q": {"type": "string"}}},
                "tool_call_template": {
                    "call_template_type": "http",
                    "http_method": "POST" if "*" in name else "GET",
                    "url": f"{url}/{name.strip('*')}",
                },
            }
            for number, name in enumerate(names)
        ],
    }


TOOLSETS = {
    "view": {"tools": ["mine.listPlanets"]},
    "mixed": {"providers": ["mine", "hidden"]},
    "foreign": {"providers": ["hidden"]},
}


@pytest.fixture(scope="module")
async def world(gateway_app, upstream):
    """Two providers and toolsets of them; return an admin's client."""
    admin = await gateway_app.client("admin")
    for name, tag, tools in (
        ("mine", "team-a", ("listPlanets", "listStars", "zzzzzq*")),
        ("hidden", "team-b", ("qqqqqw", "vvvvvk*")),
    ):
        body = {"name": name, "source": {"manual": manual(upstream.url, *tools)}, "tags": [tag]}
        made = await admin.post("/providers", json=body)
        assert made.status_code == 201, made.text
    for name, definition in TOOLSETS.items():
        made = await admin.put(f"/toolsets/{name}", json={"definition": definition})
        assert made.status_code == 201, made.text
    return admin

"""Providers of `graphql`, registered and called through a running gateway."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import orjson
import pytest
import strawberry
from aiohttp import web
from strawberry.aiohttp.views import GraphQLView

from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway

SECRET = "secret-of-a-graph-88"


@strawberry.type
class Pet:
    name: str
    age: int


@strawberry.input
class PetInput:
    name: str
    age: int = 1


@strawberry.type
class Query:
    @strawberry.field(description="Finds pets.")
    def pets(self, name: str | None = None) -> list[Pet]:
        return [Pet(name=name or "Rex", age=3)]


@strawberry.type
class Mutation:
    @strawberry.mutation
    def add(self, pet: PetInput) -> Pet:
        if not pet.name:
            raise ValueError("a pet needs a name")
        return Pet(name=pet.name, age=pet.age)


@strawberry.type
class Subscription:
    @strawberry.subscription
    async def born(self, count: int) -> AsyncIterator[Pet]:
        for n in range(count):
            yield Pet(name=f"P{n}", age=0)
            await asyncio.sleep(0.03)


class Site:
    """A GraphQL server that wants a key."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Any] = []
        self.view = GraphQLView(schema=strawberry.Schema(Query, Mutation, Subscription), keep_alive=False)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, dict(request.headers)))
        if (
            request.headers.get("X-Key") != SECRET
            or request.headers.get("Authorization") != f"Bearer {SECRET}"
        ):
            return web.json_response({"errors": [{"message": "no"}]}, status=401)
        return await self.view(request)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    running = Site()
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", running.handle)
    with beside(web_server(application)) as running.url:
        yield running


def call(client: httpx2.Client, name: str, arguments: Any, status: int = 200, **headers: str) -> Any:
    answer = client.post(f"/tools/{name}/call", json=arguments, headers=headers)
    assert answer.status_code == status, answer.text
    return answer


@pytest.mark.parametrize("spelling", ["provider_type", "call_template_type"])
def test_a_schema_becomes_tools_that_are_called_and_streamed(
    gateway: RunningGateway, site: Site, spelling: str
) -> None:
    name = f"graph_{spelling}"
    template = {
        spelling: "graphql", "url": f"{site.url}/graphql", "headers": {"X-Key": "${KEY}"},
        "auth": {"auth_type": "api_key", "api_key": "Bearer ${KEY}", "var_name": "Authorization"},
    }  # fmt: skip
    body = {"name": name, "source": {"call_template": template}, "variables": {"KEY": {"value": SECRET}}}
    with gateway.client() as client:
        made = client.post("/providers", json=body)
        assert made.status_code == 201, made.text
        provider = client.get(f"/providers/{name}").json()
        assert (provider["protocol"], provider["origins"]) == ("graphql", [site.url])
        found = client.get(f"/tools?provider={name}").json()["items"]
        assert sorted(tool["name"] for tool in found) == [f"{name}.add", f"{name}.born", f"{name}.pets"]
        assert call(client, f"{name}.pets", {"name": "Al"}).json() == {"pets": [{"name": "Al", "age": 3}]}
        assert call(client, f"{name}.pets", {}).json() == {"pets": [{"name": "Rex", "age": 3}]}
        assert call(client, f"{name}.add", {"pet": {"name": "$x"}}).json() == {
            "add": {"name": "$x", "age": 1}
        }
        refused = call(client, f"{name}.add", {"pet": {"nam": "x"}}, 422).json()
        assert refused["type"].endswith("invalid-arguments")
        rejected = call(client, f"{name}.add", {"pet": {"name": ""}}, 422).json()
        assert rejected["type"].endswith("upstream-rejected")
        assert rejected["upstream_body"]["errors"][0]["message"] == "a pet needs a name"
        streamed = call(client, f"{name}.born", {"count": 3}, Accept="application/x-ndjson").text.splitlines()
        values = [orjson.loads(line) for line in streamed if line]
        assert values[:3] == [{"born": {"name": f"P{n}", "age": 0}} for n in range(3)]
        assert "end" in values[-1]["$gateway"]
        listed = call(client, f"{name}.born", {"count": 2}, Accept="application/json, text/event-stream").text
        assert listed.count("born") == 2
        assert len(call(client, f"{name}.born", {"count": 2}).json()) == 2
        shown = client.get(f"/tools/{name}.pets").text + client.get("/utcp").text + client.get("/export").text
        described = client.post(f"/tools/{name}.pets/call?dry_run=true", json={}).text
        assert SECRET not in shown + described
        again = client.post(f"/providers/{name}/refresh")
        assert again.status_code == 200, again.text
        assert client.delete(f"/providers/{name}").status_code == 204
        call(client, f"{name}.pets", {}, 404)

"""Providers of `graphql`, registered and called through a running gateway."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import orjson
import pytest
import strawberry
from aiohttp import web

from tests.harness.beside import beside
from tests.harness.gateway import RunningGateway
from tests.protocols.peers.graphql import GraphqlPeer

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


@pytest.fixture(scope="module")
def peer() -> Iterator[GraphqlPeer]:
    """A server that requires a key in two headers."""
    running = GraphqlPeer(strawberry.Schema(Query, Mutation, Subscription))

    async def respond(request: web.Request) -> web.StreamResponse:
        headers = request.headers
        if headers.get("X-Key") != SECRET or headers.get("Authorization") != f"Bearer {SECRET}":
            return web.json_response({"errors": [{"message": "no"}]}, status=401)
        response: web.StreamResponse = await running.respond_with_schema(request)
        return response

    running.override = respond
    with beside(running.serve()):
        yield running


def call(client: httpx2.Client, name: str, arguments: Any, status: int = 200, **headers: str) -> Any:
    response = client.post(f"/tools/{name}/call", json=arguments, headers=headers)
    assert response.status_code == status, response.text
    return response


@pytest.mark.parametrize("spelling", ["provider_type", "call_template_type"])
def test_a_schema_becomes_tools_that_are_called_and_streamed(
    gateway: RunningGateway, peer: GraphqlPeer, spelling: str
) -> None:
    name = f"graph_{spelling}"
    template = {
        spelling: "graphql", "url": f"{peer.url}/graphql", "headers": {"X-Key": "${KEY}"},
        "auth": {"auth_type": "api_key", "api_key": "Bearer ${KEY}", "var_name": "Authorization"},
    }  # fmt: skip
    body = {"name": name, "source": {"call_template": template}, "variables": {"KEY": {"value": SECRET}}}
    with gateway.client() as client:
        made = client.post("/providers", json=body)
        assert made.status_code == 201, made.text
        provider = client.get(f"/providers/{name}").json()
        assert (provider["protocol"], provider["origins"]) == ("graphql", [peer.url])
        found = client.get(f"/tools?provider={name}").json()["items"]
        assert sorted(tool["name"] for tool in found) == [f"{name}.add", f"{name}.born", f"{name}.pets"]
        assert call(client, f"{name}.pets", {"name": "Al"}).json() == {"pets": [{"name": "Al", "age": 3}]}
        assert call(client, f"{name}.pets", {}).json() == {"pets": [{"name": "Rex", "age": 3}]}
        assert call(client, f"{name}.add", {"pet": {"name": "$x"}}).json() == {
            "add": {"name": "$x", "age": 1}
        }
        rejected = call(client, f"{name}.add", {"pet": {"nam": "x"}}, 422).json()
        assert rejected["type"].endswith("invalid-arguments")
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


def test_the_fields_that_a_client_chooses(gateway: RunningGateway, peer: GraphqlPeer) -> None:
    template = {"call_template_type": "graphql", "url": f"{peer.url}/graphql", "headers": {"X-Key": "${KEY}"},
                "auth": {"auth_type": "api_key", "api_key": "Bearer ${KEY}", "var_name": "Authorization"}}  # fmt: skip
    body = {"name": "chosen", "source": {"call_template": template}, "variables": {"KEY": {"value": SECRET}}}
    with gateway.client() as client:
        assert client.post("/providers", json=body).status_code == 201
        inputs = client.get("/tools/chosen.pets").json()["inputs"]
        assert inputs["properties"]["_fields"]["type"] == "array"
        found = call(client, "chosen.pets", {"_fields": ["age"]}).json()
        assert found == {"pets": [{"age": 3}]}
        rejected = call(client, "chosen.pets", {"_fields": ["age", "agee"]}, 422).json()
        assert rejected["type"].endswith("invalid-arguments")
        assert rejected["errors"][0]["pointer"] == "/_fields/1"
        rejected = call(client, "chosen.pets", {"_fields": [7]}, 422).json()
        assert rejected["errors"][0]["pointer"] == "/_fields/0"
        described = client.post("/tools/chosen.pets/call?dry_run=true", json={"_fields": ["age"]}).json()
        assert "age" in described["body"]["query"]
        assert "name" not in described["body"]["query"].replace("$name", "").replace("name:", "")
        # A tool that is written by hand needs no document.
        own = {"provider": "chosen", "name": "add", "inputs": {"type": "object"},
               "call_template": {**template, "operation_type": "mutation"}}  # fmt: skip
        assert client.post("/tools", json=own).status_code == 409
        own = {**own, "name": "added", "call_template": {**own["call_template"], "operation_name": "add"}}
        assert client.post("/tools", json=own).status_code == 201
        added = call(client, "chosen.added", {"pet": {"name": "Al"}, "_fields": ["name"]}).json()
        assert added == {"add": {"name": "Al"}}
        client.delete("/providers/chosen")

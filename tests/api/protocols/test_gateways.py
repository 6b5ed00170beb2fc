"""A gateway as the provider of another one: it simply works, and nothing goes round in a circle."""

from collections.abc import Iterator

import httpx2
import orjson
import pytest
from aiohttp import web

from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair


@pytest.fixture(scope="module")
def pair(
    servers: Pair, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningGateway, RunningGateway]]:
    with (
        serve(servers, tmp_path_factory.mktemp("a")) as one,
        serve(servers, tmp_path_factory.mktemp("b")) as other,
    ):
        yield one, other


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    async def respond(request: web.Request) -> web.StreamResponse:
        if request.path == "/lines":
            response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
            await response.prepare(request)
            for n in range(3):
                await response.write(f'{{"n": {n}}}\n'.encode())
            return response
        loop = request.headers.getall("CDN-Loop")
        return web.json_response({"asked": dict(request.query), "loop": loop})

    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", respond)
    with beside(web_server(application)) as url:
        yield url


def registration(other: RunningGateway, name: str) -> dict[str, object]:
    auth = {"auth_type": "api_key", "api_key": f"Bearer {other.key}", "var_name": "Authorization"}
    return {"name": name, "source": {"url": f"{other.url}/utcp", "auth": auth}}


def add(client: httpx2.Client, provider: str, url: str) -> None:
    template = {"call_template_type": "http", "http_method": "GET", "url": url}
    inputs = {"type": "object", "properties": {"q": {"type": "string"}}}
    made = client.post(
        "/tools", json={"provider": provider, "name": "get", "inputs": inputs, "call_template": template}
    )
    assert made.status_code == 201, made.text


def test_a_gateway_is_a_provider_like_any_other(
    pair: tuple[RunningGateway, RunningGateway], upstream: str
) -> None:
    one, other = pair
    with one.client() as here, other.client() as there:
        add(there, "far", f"{upstream}/x")
        template = {"call_template_type": "streamable_http", "url": f"{upstream}/lines"}
        there.post("/tools", json={"provider": "far", "name": "lines", "call_template": template})
        made = here.post("/providers", json=registration(other, "b"))
        assert made.status_code == 201, made.text
        assert made.json()["report"]["counts"]["accepted"] == 2
        response = here.post("/tools/b.far_get/call", json={"body": {"q": "hi"}})
        assert (response.status_code, response.json()["asked"]) == (200, {"q": "hi"})
        # Both have signed, each once, the farther one last.
        signed = [entry.strip() for line in response.json()["loop"] for entry in line.split(",")]
        assert len(signed) == len(set(signed)) == 2
        # The other's events come through as events.
        streamed = here.post(
            "/tools/b.far_lines/call", json={"body": {}}, headers={"Accept": "application/x-ndjson"}
        )
        lines = [orjson.loads(line) for line in streamed.text.splitlines() if line.strip()]
        assert [line["data"] for line in lines[:3]] == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert (
            other.key not in here.get("/providers/b").text + here.get("/utcp").text + here.get("/export").text
        )
        here.delete("/providers/b")
        there.delete("/providers/far")


def test_tools_that_would_loop_are_skipped_and_calls_denied(
    pair: tuple[RunningGateway, RunningGateway], upstream: str
) -> None:
    one, other = pair
    with one.client() as here, other.client() as there:
        add(here, "mine", f"{upstream}/x")
        assert there.post("/providers", json=registration(one, "a")).status_code == 201
        made = here.post("/providers", json=registration(other, "b") | {"options": {"allow_empty": True}})
        (skipped,) = made.json()["report"]["operations"]
        assert (skipped["outcome"], "own" in skipped["reason"]) == ("skipped", True)
        # A circle that no manual shows: a tool written by hand that calls the other gateway's tool of here.
        template = {
            "call_template_type": "http", "http_method": "POST", "url": f"{other.url}/tools/a_mine_back/call",
            "headers": {"Authorization": f"Bearer {other.key}"},
        }  # fmt: skip
        here.post("/tools", json={"provider": "mine", "name": "back", "call_template": template})
        again = there.post("/providers/a/refresh")
        assert again.status_code == 200, again.text
        rejected = here.post("/tools/mine.back/call", json={"body": {"body": {}}})
        assert (rejected.status_code, rejected.json()["upstream_status"]) == (502, 502), rejected.text
        inner = rejected.json()["upstream_body"]["upstream_body"]
        assert inner["type"] == "urn:utcp-gateway:problem:loop-detected"
        here.delete("/providers/mine")
        here.delete("/providers/b")
        there.delete("/providers/a")


def test_a_gateway_is_no_provider_of_itself(pair: tuple[RunningGateway, RunningGateway]) -> None:
    one, _ = pair

    async def forward(request: web.Request) -> web.Response:
        # A balancer in front of the gateway, whose address is not the gateway's own.
        async with httpx2.AsyncClient(trust_env=False) as client:
            response = await client.get(f"{one.url}{request.path_qs}", headers=list(request.headers.items()))
        return web.Response(
            body=response.content, status=response.status_code, content_type="application/json"
        )

    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", forward)
    with beside(web_server(application)) as front, one.client() as client:
        auth = {"auth_type": "api_key", "api_key": f"Bearer {one.key}", "var_name": "Authorization"}
        rejected = client.post(
            "/providers", json={"name": "me", "source": {"url": f"{front}/utcp", "auth": auth}}
        )
    assert rejected.status_code == 502
    assert rejected.json()["upstream_status"] == 508


@pytest.mark.parametrize("value", ["x" * 3000, "ü"])
def test_a_header_that_nobody_means_is_rejected(gateway: RunningGateway, value: str) -> None:
    with gateway.client() as client:
        rejected = client.post("/tools/none.none/call", json={}, headers=[(b"cdn-loop", value.encode())])
    assert (rejected.status_code, rejected.json()["type"]) == (508, "urn:utcp-gateway:problem:loop-detected")

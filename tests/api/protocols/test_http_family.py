"""Providers of `sse`, `http_stream`, `text` and `file`, registered and called through a running gateway."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from aiohttp import web

from tests.harness.beside import beside
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.protocols.peers.http import HttpPeer, http_server, json_response

CANARY = "canary-of-a-variable-77"
PETS = {
    "openapi": "3.0.3", "info": {"title": "Pets", "version": "1"},
    "paths": {"/pets/{id}": {"get": {
        "operationId": "getPet", "responses": {"200": {"description": "ok"}},
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
    }}},
}  # fmt: skip


class HttpFamilyPeer(HttpPeer):
    """A server of manuals, events, lines and JSON."""

    def __init__(self) -> None:
        super().__init__(self.respond)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        match request.path.strip("/").split("/")[0]:
            case "utcp-sse":
                return web.json_response(
                    self.manual("sse", f"{self.url}/events/{{topic}}", event_type="tick")
                )
            case "utcp-stream":
                template = {"url": f"{self.url}/lines", "http_method": "POST", "body_field": "body"}
                return web.json_response(self.manual("http_stream", **template))
            case "pets":
                return web.json_response({"path": request.path})
        sse = request.path.startswith("/events")
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream" if sse else "application/x-ndjson"}
        )
        await response.prepare(request)
        for n in range(3):
            line = f'{{"n": {n}}}'
            await response.write(
                f"event: tick\nid: {n}\ndata: {line}\n\n".encode() if sse else f"{line}\n".encode()
            )
            await asyncio.sleep(0.05)
        return response

    def manual(self, kind: str, url: str, **fields: Any) -> Any:
        template = {"provider_type": kind, "url": url, **fields}
        template["headers"] = {"X-Key": "${CANARY}"}
        tool = {"name": "watch", "description": "Watches.", "inputs": {}, "tool_provider": template}
        return {"version": "0.2.3", "tools": [tool]}


@pytest.fixture(scope="module")
def peer() -> Iterator[HttpFamilyPeer]:
    running = HttpFamilyPeer()
    with beside(running.serve()):
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("opened")


@pytest.fixture(scope="module")
def client(servers: Pair, tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[httpx2.Client]:
    with (
        serve(servers, tmp_path_factory.mktemp("g"), FILE_FOLDERS=str(folder)) as running,
        running.client() as made,
    ):
        made.running = running  # type: ignore[attr-defined]
        yield made


def register(client: httpx2.Client, body: Any, status: int = 201) -> Any:
    made = client.post("/providers", json=body)
    assert made.status_code == status, made.text
    return made.json()


@pytest.mark.parametrize(
    ("kind", "path", "stored"),
    [("sse", "utcp-sse", "sse"), ("http_stream", "utcp-stream", "streamable_http")],
)
def test_a_streaming_provider_is_discovered_called_and_streamed(
    client: httpx2.Client, peer: HttpFamilyPeer, kind: str, path: str, stored: str
) -> None:
    name = kind.replace("_", "")
    register(
        client,
        {
            "name": name, "source": {"call_template": {"provider_type": kind, "url": f"{peer.url}/{path}"}},
            "variables": {"CANARY": {"value": CANARY}},
        },
    )  # fmt: skip
    provider = client.get(f"/providers/{name}").json()
    assert provider["protocol"] == stored
    arguments = {"topic": "a b"} if kind == "sse" else {"body": {"q": 1}}
    response = client.post(f"/tools/{name}.watch/call", json=arguments)
    assert (response.status_code, response.json()) == (200, [{"n": 0}, {"n": 1}, {"n": 2}])
    assert peer.requests[-1].headers["x-key"] == CANARY
    if kind == "sse":
        assert peer.requests[-1].target == "/events/a%20b"
    with client.stream(
        "POST", f"/tools/{name}.watch/call", json=arguments, headers={"Accept": "application/x-ndjson"}
    ) as streamed:
        lines = [orjson.loads(line) for line in streamed.iter_lines() if line.strip()]
    assert [line.get("data", line) for line in lines[:-1]] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert "end" in lines[-1]["$gateway"]
    shown = client.get(f"/tools/{name}.watch").text + client.get("/utcp").text + client.get("/export").text
    assert CANARY not in shown


def test_a_text_provider_holds_a_manual_or_a_document(client: httpx2.Client, peer: HttpFamilyPeer) -> None:
    tool = {
        "name": "note", "description": "A note.",
        "tool_call_template": {"call_template_type": "text", "content": "price: 5 EUR, key ${TEXT_KEY}"},
    }  # fmt: skip
    manual = {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": [tool]}
    register(
        client,
        {
            "name": "notes", "variables": {"TEXT_KEY": {"value": CANARY}},
            "source": {"call_template": {"call_template_type": "text", "content": orjson.dumps(manual).decode()}},
        },
    )  # fmt: skip
    assert client.get("/providers/notes").json()["protocol"] == "text"
    assert client.post("/tools/notes.note/call", json={}).text == "price: 5 EUR, key ***"
    unmasked = client.patch("/providers/notes", json={"options": {"mask_responses": False}})
    assert unmasked.status_code == 200, unmasked.text
    response = client.post("/tools/notes.note/call", json={})
    assert (response.text, response.headers["content-type"]) == (
        f"price: 5 EUR, key {CANARY}", "text/plain; charset=utf-8",
    )  # fmt: skip
    assert CANARY not in client.get("/tools/notes.note").text
    document = orjson.dumps(PETS).decode()
    register(
        client,
        {"name": "textpets", "call_template_type": "text", "content": document, "base_url": peer.url},
    )
    assert client.post("/tools/textpets.getPet/call", json={"id": 3}).json() == {"path": "/pets/3"}


def test_a_file_provider_is_read_again_at_a_refresh(
    client: httpx2.Client, peer: HttpFamilyPeer, folder: Path
) -> None:
    path = folder / "pets.json"
    path.write_bytes(orjson.dumps(PETS | {"servers": [{"url": peer.url}]}))
    register(client, {"name": "filepets", "provider_type": "text", "file_path": str(path)})
    assert client.get("/providers/filepets").json()["protocol"] == "file"
    assert client.post("/tools/filepets.getPet/call", json={"id": 3}).json() == {"path": "/pets/3"}
    more = {"/pets": {"get": {"operationId": "listPets", "responses": {"200": {"description": "ok"}}}}}
    path.write_bytes(orjson.dumps(PETS | {"servers": [{"url": peer.url}], "paths": PETS["paths"] | more}))
    again = client.post("/providers/filepets/refresh")
    assert again.status_code == 200, again.text
    assert client.post("/tools/filepets.listPets/call", json={}).json() == {"path": "/pets"}


def test_files_elsewhere_and_local_tools_of_fetched_manuals_are_denied(
    client: httpx2.Client, folder: Path
) -> None:
    rejected = client.post(
        "/providers", json={"name": "f", "provider_type": "text", "file_path": "/etc/passwd"}
    )
    assert (rejected.status_code, rejected.json()["type"]) == (
        403,
        "urn:utcp-gateway:problem:blocked-address",
    )
    template = {"call_template_type": "file", "file_path": "/etc/passwd"}
    manual = {"utcp_version": "1", "tools": [{"name": "a", "tool_call_template": template}]}
    with beside(http_server(json_response(manual))) as url:
        body = {"name": "fetched", "source": {"url": f"{url}/utcp"}, "options": {"allow_empty": True}}
        made = register(client, body)
    assert made["report"]["counts"]["accepted"] == 0
    assert "fetched manual" in made["report"]["operations"][0]["reason"]


def test_a_gateway_without_folders_says_how_to_open_one(gateway: RunningGateway) -> None:
    with gateway.client() as client:
        rejected = client.post("/providers", json={"name": "f", "provider_type": "text", "file_path": "/x"})
    assert rejected.status_code == 422
    assert "FILE_FOLDERS" in rejected.json()["errors"][0]["detail"]


def test_a_file_that_is_missing_pauses_no_other(client: httpx2.Client, folder: Path) -> None:
    (folder / "there.txt").write_text("here it is")
    for name in ("missing", "there"):
        template = {"call_template_type": "file", "file_path": str(folder / f"{name}.txt")}
        made = client.post("/tools", json={"provider": "files", "name": name, "call_template": template})
        assert made.status_code == 201, made.text
    lost = [client.post("/tools/files.missing/call", json={}).json()["type"] for _ in range(20)]
    assert lost[-1].endswith("circuit-open")
    assert client.post("/tools/files.there/call", json={}).text == "here it is"

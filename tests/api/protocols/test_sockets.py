"""Providers of `tcp` and `udp`, registered and called through a running gateway."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import orjson
import pytest

from tests.harness.beside import beside
from tests.protocols.peers.tcp import tcp_server
from tests.protocols.peers.udp import udp_server

SECRET = "secret-of-a-socket-31"
TOOLS = [
    {"name": "echo", "description": "Says it again.", "inputs": {"type": "object", "properties": {"q": {}}}},
    {"name": "say", "description": "In words.", "inputs": {}},
    {
        "name": "broken",
        "description": "Not readable.",
        "inputs": {},
        "tool_call_template": {"call_template_type": "?"},
    },
]


class EchoPeer:
    """Replies to a line or datagram with the same, or with its manual."""

    def __init__(self) -> None:
        self.port = 0
        self.kind = ""
        self.seen: list[str] = []

    def reply(self, message: bytes) -> bytes:
        self.seen.append(message.decode())
        if message != b'{"type": "utcp"}':
            return message
        template = {
            "provider_type": self.kind, "name": "x", "host": "127.0.0.1", "port": self.port, "timeout": 5000,
            "framing_strategy": "delimiter", "message_delimiter": "\\n", "request_data_format": "text",
            "request_data_template": "${KEY} says UTCP_ARG_q_UTCP_ARG",
        }  # fmt: skip
        tools = [TOOLS[0], TOOLS[1] | {"tool_provider": template}, TOOLS[2]]
        return orjson.dumps({"version": "0.2.3", "tools": tools})


@pytest.fixture(scope="module", params=["tcp", "udp"])
def peer(request: pytest.FixtureRequest) -> Iterator[EchoPeer]:
    running = EchoPeer()
    running.kind = request.param

    async def on_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        writer.write(running.reply(line.removesuffix(b"\n")) + b"\n")

    async def on_datagram(message: bytes, reply: Any, _: Any) -> None:
        reply(running.reply(message))

    @asynccontextmanager
    async def serving() -> AsyncIterator[str]:
        server = udp_server(on_datagram) if running.kind == "udp" else tcp_server(on_line)
        async with server as running.port:
            yield f"{running.kind}://127.0.0.1:{running.port}"

    with beside(serving()):
        yield running


@pytest.mark.parametrize("spelling", ["provider_type", "call_template_type"])
def test_a_socket_is_discovered_and_called(client: httpx2.Client, peer: EchoPeer, spelling: str) -> None:
    name = f"{peer.kind}_{spelling}"
    template = {
        spelling: peer.kind, "host": "127.0.0.1", "port": peer.port, "timeout": 5000,
        "framing_strategy": "delimiter", "message_delimiter": "\\n",
    }  # fmt: skip
    body = {"name": name, "source": {"call_template": template}, "variables": {"KEY": {"value": SECRET}}}
    made = client.post("/providers", json=body)
    assert made.status_code == 201, made.text
    provider = client.get(f"/providers/{name}").json()
    assert (provider["protocol"], provider["origins"]) == (
        peer.kind,
        [f"{peer.kind}://127.0.0.1:{peer.port}"],
    )
    # Two tools are called with the template of the manual, as the released clients do.
    assert made.json()["report"]["counts"]["accepted"] == 3
    response = client.post(f"/tools/{name}.echo/call", json={"q": ["ü", 1]})
    assert (response.text, response.headers["content-type"]) == (
        '{"q": ["\\u00fc", 1]}',
        "text/plain; charset=utf-8",
    )
    strict = client.post(f"/tools/{name}.broken/call", json={"q": 1}, headers={"Accept": "application/json"})
    assert strict.json() == '{"q": 1}'
    assert client.post(f"/tools/{name}.say/call", json={"q": "hello"}).status_code == 200
    assert peer.seen[-1] == f"{SECRET} says hello"
    described = client.post(f"/tools/{name}.say/call?dry_run=true", json={"q": "hello"})
    assert SECRET not in described.text
    shown = client.get(f"/tools/{name}.say").text + client.get("/utcp").text + client.get("/export").text
    assert SECRET not in shown
    assert client.post(f"/providers/{name}/refresh").status_code == 200
    assert client.delete(f"/providers/{name}").status_code == 204
    assert client.post(f"/tools/{name}.echo/call", json={}).status_code == 404


def test_a_manuals_own_template_with_a_secret_serves_its_tools(client: httpx2.Client, peer: EchoPeer) -> None:
    template = {
        "call_template_type": peer.kind, "host": "127.0.0.1", "port": peer.port, "timeout": 5000,
        "framing_strategy": "delimiter", "message_delimiter": "\\n", "request_data_format": "text",
        "request_data_template": "${KEY}:UTCP_ARG_q_UTCP_ARG",
    }  # fmt: skip
    name = f"sealed{peer.kind}"
    body = {"name": name, "source": {"call_template": template}, "variables": {"KEY": {"value": SECRET}}}
    made = client.post("/providers", json=body)
    assert made.status_code == 201, made.text
    response = client.post(f"/tools/{name}.echo/call", json={"q": 1})
    assert (response.status_code, peer.seen[-1]) == (200, f"{SECRET}:1"), response.text
    assert client.delete(f"/providers/{name}").status_code == 204


def test_a_response_is_sent_as_events_where_these_are_accepted(client: httpx2.Client, peer: EchoPeer) -> None:
    template = {
        "call_template_type": peer.kind, "host": "127.0.0.1", "port": peer.port,
        "request_data_format": "text", "request_data_template": "UTCP_ARG_q_UTCP_ARG\n",
    }  # fmt: skip
    provider = f"by_hand_{peer.kind}"
    body = {"provider": provider, "name": "say", "call_template": template, "inputs": {}}
    made = client.post("/tools", json=body)
    assert made.status_code == 201, made.text
    for accept in ("application/x-ndjson", "application/json, text/event-stream", "text/event-stream, */*"):
        response = client.post(f"/tools/{provider}.say/call", json={"q": "here"}, headers={"Accept": accept})
        assert (response.status_code, "here" in response.text) == (200, True), accept
    assert client.delete(f"/providers/{provider}").status_code == 204


def test_host_and_port_may_be_variables_but_no_secrets(client: httpx2.Client, peer: EchoPeer) -> None:
    template = {
        "call_template_type": peer.kind, "host": "${HOST}", "port": "${PORT}", "timeout": "${PATIENCE}",
        "framing_strategy": "delimiter", "message_delimiter": "\\n",
    }  # fmt: skip
    values = {"HOST": "127.0.0.1", "PORT": str(peer.port), "PATIENCE": "5000"}
    variables = {name: {"value": value, "secret": False} for name, value in values.items()}
    name = f"open{peer.kind}"
    body = {"provider": name, "name": "say", "call_template": template, "variables": variables}
    made = client.post("/tools", json=body)
    assert made.status_code == 201, made.text
    response = client.post(f"/tools/{name}.say/call", json={"q": 1})
    assert (response.status_code, response.text) == (200, '{"q": 1}'), response.text
    assert client.get(f"/providers/{name}").json()["origins"] == [f"{peer.kind}://127.0.0.1:{peer.port}"]
    variables["HOST"]["secret"] = True
    rejected = client.post("/tools", json=body | {"provider": f"{name}2", "variables": variables})
    assert rejected.status_code == 422
    assert rejected.json()["errors"][0]["pointer"] == "/call_template/host"
    assert client.delete(f"/providers/{name}").status_code == 204


def test_an_argument_that_holds_other_messages_is_rejected_unless_the_template_allows_it(
    client: httpx2.Client, peer: EchoPeer
) -> None:
    attack = {"q": "x\nFLUSHALL\nSET admin 1"}
    template = {
        "call_template_type": peer.kind, "host": "127.0.0.1", "port": peer.port, "timeout": 5000,
        "framing_strategy": "delimiter", "message_delimiter": "\\n", "request_data_format": "text",
        "request_data_template": "SET key UTCP_ARG_q_UTCP_ARG",
    }  # fmt: skip
    name = f"border{peer.kind}"
    inputs = {"type": "object", "properties": {"q": {"type": "string"}}}
    for tool, more in (("set", {}), ("raw", {"enforce_message_boundaries": False})):
        body = {"provider": name, "name": tool, "inputs": inputs, "call_template": {**template, **more}}
        made = client.post("/tools", json=body)
        assert made.status_code == 201, made.text
    before = len(peer.seen)
    for url in (f"/tools/{name}.set/call", f"/tools/{name}.set/call?dry_run=true"):
        response = client.post(url, json=attack)
        assert response.status_code == 422, response.text
        assert response.json()["type"].endswith("invalid-arguments")
        assert [fault["pointer"] for fault in response.json()["errors"]] == ["/q"]
    assert len(peer.seen) == before
    assert client.post(f"/tools/{name}.set/call", json={"q": "a word"}).status_code == 200
    assert client.post(f"/tools/{name}.raw/call", json=attack).status_code == 200
    assert "FLUSHALL" in "".join(peer.seen[before:]) or peer.kind == "tcp"
    served = client.get(f"/utcp?mode=direct&protocol={peer.kind}").json()["tools"]
    found = {
        tool["name"].rpartition("_")[2]: tool["tool_call_template"] for tool in served if name in tool["name"]
    }
    assert "enforce_message_boundaries" not in found["set"]
    assert found["raw"]["enforce_message_boundaries"] is False
    assert client.delete(f"/providers/{name}").status_code == 204

"""`call_tool("gw.tool", {"name": value})` with each released client and each kind of argument, as docs/clients.md says.

The arguments stand at the top, not below `body`, so the clients write them into the query. A call, and a stream, must have the
result of the same arguments in JSON.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway
from tests.interop.clients import CLIENTS, run
from tests.protocols.peers.tcp import tcp_server

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
TEXT = {"type": "string"}
PLACE = {
    "type": "object",
    "properties": {"street": TEXT, "number": {"type": "integer"}, "open": {"type": ["boolean", "null"]}, "tags": {"type": "array", "items": TEXT}},
}  # fmt: skip
INPUTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "integer": {"type": "integer"},
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "nothing": {"type": ["integer", "null"]},
        "texts": {"type": "array", "items": TEXT},
        "integers": {"type": "array", "items": {"type": "integer"}},
        "flags": {"type": "array", "items": {"type": "boolean"}},
        "optional": {"type": "array", "items": {"type": ["string", "null"]}},
        "rows": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "places": {"type": "array", "items": PLACE},
        "place": PLACE,
        "nested": {"type": "object", "properties": {"place": PLACE}},
    },
    "additionalProperties": False,
}
KINDS: dict[str, list[dict[str, Any]]] = {
    "string": [{"text": "sea"}, {"text": "a\nb"}, {"text": "5"}, {"text": "null"}, {"text": "[1]"}, {"text": '{"a": 1}'}],
    "string, any script": [{"text": "Grüße 日本 😀 & = + % ? # / [x]"}],
    "empty string": [{"text": ""}],
    "integer": [{"integer": 7}, {"integer": -7}, {"integer": 2**53 - 1}],
    "number": [{"number": 1.5}, {"number": -2.5e-7}, {"number": 1e21}, {"number": 3}, {"integer": 2.0}],
    "boolean": [{"flag": True}, {"flag": False}],
    "null": [{"nothing": None}],
    "list of strings or numbers": [{"texts": ["a", "b,c"]}, {"texts": ["a"]}, {"texts": [""]}, {"texts": ["[1]"]}, {"integers": [1, 2]}],
    "list of booleans": [{"flags": [True, False]}],
    "list with null": [{"optional": ["a", None]}],
    "list of lists or objects": [{"rows": [[1, 2], [3]]}, {"places": [{"number": 1}, {"street": "5"}]}],
    "empty list": [{"texts": []}],
    "object": [{"place": {"street": "5", "number": 5, "open": True}}, {"place": {"tags": ["a", "b"]}}],
    "object in an object": [{"nested": {"place": {"number": 5, "tags": ["a"]}}}],
    "object with null": [{"place": {"open": None, "number": 1}}],
    "empty object": [{"place": {}}],
    "several arguments": [{"text": "a", "integer": 1, "integers": [1, 2]}],
    "no argument": [{}],
}  # fmt: skip
"""Arguments of each kind: the first column of the table."""
YES, RAISES, LOST = "yes", "client raises", "not sent"
COLUMNS = {"1": 1, "0": 2, "typescript": 3}


def table() -> dict[str, list[str]]:
    """Return the rows of the table in docs/clients.md by their first column."""
    text = PAGE.read_text(encoding="utf-8").partition("## Arguments of UTCP clients")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\|.*\|$", text, re.MULTILINE)
    ]
    return {row[0]: row for row in rows[2:]}


@asynccontextmanager
async def upstreams() -> AsyncIterator[str]:
    """Run a server that sends arguments back, and one that streams them; yield the manual of both as JSON."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readuntil(b"\0"))

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        for piece in sorted(request.query.items()), await request.text():
            await response.write(json.dumps(piece).encode() + b"\n")
        return response

    application = web.Application()
    application.router.add_post("/stream", stream)
    async with tcp_server(echo) as port, web_server(application) as url:
        templates = {
            "echo": {
                "call_template_type": "tcp",
                "host": "127.0.0.1",
                "port": port,
                "framing_strategy": "delimiter",
            },
            "stream": {
                "call_template_type": "streamable_http",
                "http_method": "POST",
                "url": f"{url}/stream",
                "content_type": "application/json",
                "body_field": "nested",
            },
        }
        tools = [
            {"name": name, "description": name, "inputs": INPUTS, "tool_call_template": template}
            for name, template in templates.items()
        ]
        yield json.dumps({"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": tools})


@pytest.fixture(scope="module")
def provider(gateway: RunningGateway) -> Iterator[str]:
    with beside(upstreams()) as manual, gateway.client() as client:
        made = client.post("/providers", json={"name": "natural", "source": {"manual": json.loads(manual)}})
        assert made.status_code == 201, made.text
        yield "natural"
        client.delete("/providers/natural")


CALLS = [(kind, arguments) for kind, several in KINDS.items() for arguments in several]


def in_json(gateway: RunningGateway, mode: str) -> list[Any]:
    """Return what each call gives whose arguments are the body."""
    accept = "application/x-ndjson;form=values" if mode == "stream" else "application/json"
    found = []
    with gateway.client() as client:
        for _, arguments in CALLS:
            called = client.post(
                f"/tools/natural_{TOOLS[mode]}/call", json=arguments, headers={"Accept": accept}
            )
            assert called.status_code == 200, (arguments, called.text)
            lines = [json.loads(line) for line in called.text.splitlines() if line]
            found.append(lines if mode == "stream" else json.loads(lines[0]))
    return found


def received(result: dict[str, Any], mode: str) -> Any:
    """Return the arguments that the upstream received; the error where the client raised one."""
    if "ok" not in result:
        return result
    return result["ok"] if mode == "stream" else json.loads(result["ok"])


TOOLS = {"call": "echo", "stream": "stream"}


def test_the_table_names_every_kind_of_argument() -> None:
    assert list(table()) == list(KINDS)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mode", TOOLS)
def test_arguments_arrive_as_the_table_says(
    client: str, mode: str, gateway: RunningGateway, provider: str
) -> None:
    expected = in_json(gateway, mode)
    calls = [(f"natural_{TOOLS[mode]}", arguments) for _, arguments in CALLS]
    query = f"?provider={provider}" + ("&protocol=http,streamable_http" if mode == "stream" else "")
    found = run(client, gateway, calls, query=query, mode=mode)
    assert found["success"], found["errors"]
    rows = table()
    for (kind, arguments), value, result in zip(CALLS, expected, found["results"], strict=True):
        said = rows[kind][COLUMNS[client]]
        at = (client, mode, arguments, said, result)
        if mode == "stream" and client == "typescript":
            # This client has no streams: it gives a sentence of its own, whatever the tool.
            assert result == {"ok": [f"Streaming response for tool: gw.natural_{TOOLS[mode]}"]}, at
        elif said == YES:
            assert received(result, mode) == value, at
        elif said == RAISES:
            assert "TypeError" in result["error"], at
        else:
            assert said == LOST, at
            # The upstream of the stream gets no empty list in its query in either case.
            assert mode == "stream" or received(result, mode) != value, at


@pytest.mark.parametrize("client", CLIENTS)
def test_every_kind_of_argument_arrives_below_body(
    client: str, gateway: RunningGateway, provider: str
) -> None:
    calls = [("natural_echo", {"body": arguments}) for _, arguments in CALLS]
    found = run(client, gateway, calls, query=f"?provider={provider}")
    assert [received(one, "call") for one in found["results"]] == in_json(gateway, "call")

"""A tool that cannot be used never loses the others of its manual: it is reported by name and reason, whatever the source."""

import contextlib
import json

import pytest
import yaml
from aiohttp import web

from tests.protocols.peers.tcp import tcp_server
from tests.protocols.peers.udp import udp_server
from tests.protocols.peers.websocket import websocket_server

# As python-utcp writes the template of every tcp tool.
NUL_DELIMITER = {
    "host": "127.0.0.1", "port": 7, "request_data_format": "json", "framing_strategy": "delimiter",
    "message_delimiter": "\x00", "interpret_escape_sequences": True, "fixed_message_length": None,
}  # fmt: skip
BAD = {
    "description": {"description": "a\x00b"},
    "schema": {"inputs": {"type": "object", "properties": {"a\x00": {}}}},
    "surrogate": {"description": "\ud800", "tags": ["\udfff"], "outputs": {"title": "\ud800"}},
    "unknown": {"template": {"call_template_type": "carrier", "provider_type": "carrier"}},
    "variable": {"template": {"url": "https://a.example/${NOT_SET}"}},
    "header": {"template": {"url": "https://a.example/", "headers": {"X-A": "a\x00b"}}},
    "number": {"inputs": 7},
}


def manual(version, *, without=()):
    def entry(name, protocol, template, **more):
        if version == 1:
            call = {"tool_call_template": {"call_template_type": protocol, **template}}
        else:
            call = {"tool_provider": {"provider_type": protocol, "name": "x", **template}}
        return {
            "name": name,
            "description": name,
            "inputs": {"type": "object", "properties": {}},
            **call,
            **more,
        }

    tools = [entry("delimited", "tcp", NUL_DELIMITER)]
    for name, bad in BAD.items():
        if name not in without:
            template = bad.get("template", {"url": "https://a.example/"})
            tools.append(entry(name, "http", template, **{key: bad[key] for key in bad if key != "template"}))
    tools.append(entry("good", "http", {"url": "https://a.example/"}))
    versions = {"utcp_version": "1.0.1", "manual_version": "1.0.0"} if version == 1 else {"version": "0.2.3"}
    return json.dumps(versions | {"tools": tools})


@contextlib.asynccontextmanager
async def published(protocol, text):
    """Serve a manual over a socket; yield the members of the template that discovers it."""

    async def on_line(reader, writer):
        await reader.readline()
        writer.write(text.encode() + b"\n")

    async def on_datagram(_, reply, __):
        reply(text.encode())

    async def on_message(connection):
        await connection.recv()
        await connection.send(text)

    if protocol == "tcp":
        async with tcp_server(on_line) as port:
            yield {
                "host": "127.0.0.1",
                "port": port,
                "framing_strategy": "delimiter",
                "message_delimiter": "\\n",
            }
    elif protocol == "udp":
        async with udp_server(on_datagram) as port:
            yield {"host": "127.0.0.1", "port": port}
    else:
        async with websocket_server(on_message) as url:
            yield {"url": url}


def check(made, *, without=()):
    assert made.status_code == 201, made.text
    operations = {one["source_key"]: one for one in made.json()["report"]["operations"]}
    accepted = {name for name, one in operations.items() if one["outcome"] == "accepted"}
    # Over sockets, clients call tools without a template that can be read with the manual's own.
    assert {"delimited", "good"} <= accepted
    skipped = operations.keys() - accepted
    assert skipped >= {"description", "schema", "number"} - set(without)
    assert all(operations[name]["reason"] for name in skipped)
    assert all("/inputs" in operations[name]["pointer"] for name in skipped & {"schema", "number"})
    return skipped


async def delimiter(admin):
    """Return the delimiter of the stored tool, and that which a client finds in the direct manual."""
    stored = (await admin.get("/tools/m.delimited")).json()["call_template"]
    found = await admin.get("/utcp?mode=direct&protocol=tcp,http&provider=m")
    tools = {tool["name"]: tool["tool_call_template"] for tool in found.json()["tools"]}
    return stored["message_delimiter"], tools["m_delimited"]["message_delimiter"]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("protocol", ["http", "sse", "streamable_http"])
async def test_a_fetched_manual_keeps_its_other_tools(admin, upstream, protocol, version):
    async def page():
        return web.Response(text=manual(version), content_type="application/json")

    upstream.pages["/utcp"] = page
    source = {"call_template_type": protocol, "url": f"{upstream.url}/utcp"}
    made = await admin.post("/providers", json={"name": "m", "source": {"call_template": source}})
    assert check(made) == BAD.keys()
    names = [tool["name"] for tool in (await admin.get("/utcp?provider=m")).json()["tools"]]
    assert names == ["m_delimited", "m_good"]
    assert await delimiter(admin) == ("\\x00", "\\x00")
    again = await admin.post("/providers/m/refresh")
    assert sorted(again.json()["difference"]["unchanged"]) == ["delimited", "good"]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("protocol", ["tcp", "udp", "websocket"])
async def test_a_manual_that_came_over_a_socket_keeps_its_other_tools(admin, protocol, version):
    async with published(protocol, manual(version)) as template:
        source = {"call_template": {"call_template_type": protocol, **template}}
        made = await admin.post("/providers", json={"name": "m", "source": source})
    check(made)
    assert (await delimiter(admin))[0] == "\\x00"


@pytest.mark.parametrize("version", [0, 1])
async def test_a_manual_in_a_text_keeps_its_other_tools(admin, version):
    source = {"call_template_type": "text", "content": manual(version, without=["variable"])}
    made = await admin.post("/providers", json={"name": "m", "source": {"call_template": source}})
    assert check(made) == BAD.keys() - {"variable"}
    assert await delimiter(admin) == ("\\x00", "\\x00")


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("form", ["bare", "source", "yaml", "file"])
async def test_a_manual_that_was_given_keeps_its_other_tools(admin, version, form):
    text = manual(version, without=["surrogate"])
    match form:
        case "bare":
            made = await admin.post("/providers?name=m", json=json.loads(text))
        case "source":
            made = await admin.post("/providers", json={"name": "m", "source": {"manual": json.loads(text)}})
        case "yaml":
            # YAML cannot write U+0000 but by an escape, which the reader removes.
            raw = json.loads(manual(version, without=["surrogate", "description", "schema", "header"]))
            raw["tools"][0][["tool_provider", "tool_call_template"][version]]["message_delimiter"] = "\\x00"
            made = await admin.post(
                "/providers?name=m", content=yaml.safe_dump(raw), headers={"Content-Type": "application/yaml"}
            )
            check(made, without=["description", "schema"])
            assert await delimiter(admin) == ("\\x00", "\\x00")
            return
        case _:
            made = await admin.post("/providers?name=m", files={"file": ("m.json", text, "application/json")})
    assert check(made) == BAD.keys() - {"surrogate"}
    assert await delimiter(admin) == ("\\x00", "\\x00")


async def test_a_refresh_removes_no_tool_whose_variable_has_no_value_any_more(admin, upstream):
    def page(*names):
        return {
            "utcp_version": "1.0.1",
            "tools": [
                {"name": name, "tool_call_template": {"call_template_type": "http", "url": f"{upstream.url}/${{{name}}}"}}
                for name in names
            ] + [{"name": "good", "tool_call_template": {"call_template_type": "http", "url": f"{upstream.url}/"}}],
        }  # fmt: skip

    upstream.pages["/utcp"] = page("A")
    # In the namespace of the provider, and so for a manual that was fetched.
    assert (await admin.put("/variables/m_A", json={"value": "a", "secret": False})).status_code == 201
    made = await admin.post("/providers", json={"name": "m", "source": {"url": f"{upstream.url}/utcp"}})
    assert made.status_code == 201, made.text
    upstream.pages["/utcp"] = page("A", "B")
    refreshed = await admin.post("/providers/m/refresh")
    assert refreshed.status_code == 200, refreshed.text
    assert [one["source_key"] for one in refreshed.json()["report"]["operations"] if one["reason"]] == ["B"]
    assert (await admin.delete("/variables/m_A")).status_code == 204
    rejected = await admin.post("/providers/m/refresh")
    assert (rejected.status_code, rejected.json()["variables"]) == (422, ["A"])
    names = [one["name"] for one in (await admin.get("/tools?provider=m")).json()["items"]]
    assert sorted(names) == ["m.A", "m.good"]

"""The pages of toolsets: from a selection to an address, and how each tool differs there."""

import pytest

from tests.api.console.console_page import post, read


def definition(gateway, name):
    with gateway.client() as client:
        return client.get(f"/toolsets/{name}").json()["definition"]


@pytest.fixture
def quilts(gateway, pad):
    """A toolset with two tools, one of which has another name and a preset."""
    change = {"name": "stitch", "presets": {"branch": "north"}}
    body = {"definition": {"tools": ["pad.quilt00", "pad.quilt01"], "changes": {"pad.quilt00": change}}}
    with gateway.client() as client:
        assert client.put("/toolsets/quilts", json=body).status_code in (200, 201)
        yield "quilts"
        client.delete("/toolsets/quilts")


def test_toolset_of_a_selection_is_created_and_shown(console, gateway):
    client = console()
    form = read(client, "/console/new-toolset?tool=pad.quilt00&tool=pad.zap")
    assert "pad.quilt00\npad.zap</textarea>" in form.html
    location = post(
        client, "/console/new-toolset", name="fresh", title="Fresh", tools="pad.quilt00\r\npad.zap"
    )
    assert location == "/console/toolsets/fresh?notice=created"
    page = read(client, "/console/toolsets/fresh")
    assert "Tokens of all definitions" in page.text
    assert f"{gateway.url}/toolsets/fresh/mcp" in page.text
    assert "/toolsets/fresh/utcp" in page.text
    assert gateway.key not in page.html
    assert "fresh" in read(client, "/console/toolsets?q=fre", fragment="results").text
    untyped = post(client, "/console/toolsets/fresh/delete", typed="fres")
    assert "notice=type-the-name" in untyped
    post(client, "/console/toolsets/fresh/delete", typed="fresh")
    read(client, "/console/toolsets/fresh", status=404)


def test_rejected_form_is_shown_again_with_its_values(console):
    response = console().post("/console/new-toolset", data={"name": "not a name", "title": "Kept"})
    assert response.status_code == 422
    assert 'value="Kept"' in response.text
    assert "/name" in response.text
    number = console().post("/console/new-toolset", data={"name": "x", "max_bytes": "many"})
    assert number.status_code == 422
    assert "Give a whole number." in number.text


def test_selection_is_added_and_removed(console, gateway, quilts):
    client = console()
    choice = read(client, "/console/toolset-members?tool=pad.zap")
    assert 'value="quilts"' in choice.html
    location = post(client, "/console/toolset-members", toolset="quilts", tool="pad.zap", action="add")
    assert "notice=toolset-added&count=1&undo=" in location
    assert definition(gateway, "quilts")["tools"] == ["pad.quilt00", "pad.quilt01", "pad.zap"]
    post(client, "/console/toolset-members", toolset="quilts", tool="pad.zap", action="remove")
    assert definition(gateway, "quilts")["tools"] == ["pad.quilt00", "pad.quilt01"]


def test_edit_keeps_what_its_form_does_not_have(console, gateway, quilts):
    client = console()
    before = definition(gateway, "quilts")
    fields = {
        "title": "Quilts",
        "tools": "pad.quilt00\npad.quilt01\npad.quilt02",
        "read_only": "1",
        "mode": "all",
    }
    post(client, "/console/toolsets/quilts/edit", **fields)
    after = definition(gateway, "quilts")
    assert after["changes"] == before["changes"]
    assert (after["tools"][-1], after["read_only"], after["mode"]) == ("pad.quilt02", True, "all")
    outdated = client.post("/console/toolsets/quilts/edit", data={**fields, "version": "1"})
    assert outdated.status_code == 412


def test_tool_is_renamed_and_has_presets(console, gateway, quilts):
    client = console()
    path = "/console/toolsets/quilts/tools/pad.quilt00"
    assert 'value="stitch"' in read(client, path).html
    assert "renamed, presets: /branch" in read(client, "/console/toolsets/quilts").text
    post(client, path, name="sew", **{"preset:branch": "south", "preset:q": '"a b"'})
    change = definition(gateway, "quilts")["changes"]["pad.quilt00"]
    assert change == {"name": "sew", "presets": {"/branch": "south", "/q": "a b"}}
    broken = client.post(path, data={"preset:q": '{"a"'})
    assert broken.status_code == 422
    assert "This is no valid JSON." in broken.text
    post(client, path)
    assert "changes" not in definition(gateway, "quilts")


def test_search_of_a_toolset_finds_its_tools_by_their_names_there(console, quilts):
    page = read(console(), "/console/toolsets/quilts?q=stitch", fragment="results")
    assert "stitch(" in page.text
    assert "zap" not in read(console(), "/console/toolsets/quilts?q=zap", fragment="results").text


def test_keys_that_are_limited_to_a_toolset_are_listed(console, gateway, quilts):
    with gateway.client() as client:
        body = {"name": "quilter", "scopes": ["tools:read"], "toolsets": ["quilts"]}
        assert client.post("/keys", json=body).status_code == 201
        found = client.get("/keys?toolset=quilts").json()["items"]
        assert [key["name"] for key in found] == ["quilter"]
        assert client.get("/keys?toolset=other").json()["items"] == []
    assert "quilter" in read(console(), "/console/toolsets/quilts").text


def test_key_without_rights_sees_members_and_no_definition(console, quilts):
    page = read(console("tools:read"), "/console/toolsets/quilts")
    assert "stitch" in page.text
    assert "north" not in page.text
    assert not any("edit" in link for link in page.links)
    assert "Delete this toolset" not in page.text
    forbidden = console("tools:read").post("/console/new-toolset", data={"name": "x", "tools": "pad.zap"})
    assert forbidden.status_code == 403

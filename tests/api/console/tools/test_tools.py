"""The page of tools: what it shows, and what its forms do."""

import pytest

from tests.api.console.console_page import post, read


def states(gateway, names):
    with gateway.client() as client:
        found = client.get("/tools", params={"names": names}).json()["items"]
    return {tool["name"]: tool["enabled"] for tool in found}


def test_list_pages_by_keyset_there_and_back(console):
    client = console()
    first = read(client, "/console/tools?provider=pad")
    assert first.rows == [f"pad.quilt{number:02}" for number in range(50)]
    (further,) = [link for link in first.links if "cursor=" in link]
    second = read(client, further)
    assert second.rows == [f"pad.quilt{number:02}" for number in range(50, 60)] + ["pad.zap"]
    assert "Previous page" in second.text
    assert second.links[-1] == "/console/tools?provider=pad"
    assert read(client, second.links[-1]).rows == first.rows


def test_page_of_fifty_rows_is_small(console):
    page = read(console(), "/console/tools?provider=pad")
    assert len(page.html.encode()) <= 60 * 1024
    assert page.nodes <= 1_500


def test_search_shows_the_best_matches_and_text_of_upstreams_is_escaped(console):
    page = read(console(), "/console/tools?q=zap", fragment="results")
    assert page.rows == ["pad.zap"]
    assert "Zap &lt;b&gt;it&lt;/b&gt; by the forecast." in page.html
    assert "<!DOCTYPE" not in page.html


def test_chips_select_by_state(console, gateway):
    client = console()
    assert read(client, "/console/tools?state=destructive&provider=pad").rows == ["pad.zap"]
    assert "pad.zap" in read(client, "/console/tools?state=destructive&q=zap").rows
    assert read(client, "/console/tools?state=disabled&provider=pad").rows == []


def test_no_match_says_what_to_do(console):
    page = read(console(), "/console/tools?tag=nobody-has-this")
    assert "No tools match" in page.text
    assert "/console/tools" in page.links


def test_wrong_filter_is_explained_with_the_status_of_the_api(console):
    assert "provider" in read(console(), "/console/tools?provider=a.b", status=422).text


def test_checked_rows_are_disabled_and_enabled_again(console, gateway):
    client = console()
    names = ["pad.quilt00", "pad.quilt01"]
    location = post(client, "/console/tools", action="disable", tool=names, provider="pad")
    assert location.startswith("/console/tools?provider=pad&notice=tools-disabled&count=2&undo=")
    assert states(gateway, names) == dict.fromkeys(names, False)
    assert read(client, "/console/tools?provider=pad&state=disabled").rows == names
    post(client, "/console/tools", action="enable", tool=names)
    assert states(gateway, names) == dict.fromkeys(names, True)


def test_all_that_match_are_tagged_though_the_page_shows_fifty(console, gateway):
    client = console()
    location = post(client, "/console/tools", action="tag", all="1", provider="pad", tags="soft")
    assert "notice=tools-tagged&count=61" in location
    with gateway.client() as admin:
        assert admin.get("/tools?tag=soft&limit=1").json()["total"] == 61
    assert "count=61" in post(client, "/console/tools", action="untag", all="1", tag="soft", tags="soft")


@pytest.mark.parametrize(
    ("fields", "notice"),
    [
        ({"action": "disable"}, "tools-none-selected"),
        ({"action": "tag", "tool": "pad.zap"}, "tags-missing"),
        ({"action": "disable", "tool": "pad.none"}, "tools-not-changed"),
    ],
)
def test_action_that_does_nothing_says_so(console, fields, notice):
    assert f"notice={notice}" in post(console(), "/console/tools", **fields)


def test_actions_are_shown_if_and_only_if_the_key_may_use_them(console):
    admin, reader = (read(one, "/console/tools?provider=pad") for one in (console(), console("tools:read")))
    assert (None, "disable") in admin.buttons
    assert ("/console/toolset-members", None) in admin.buttons
    assert (None, "disable") not in reader.buttons
    assert ("/console/toolset-members", None) not in reader.buttons
    assert ("/console/tool-export", None) in reader.buttons
    assert "Calls, 7 days" not in reader.text
    assert "Unused" not in reader.text
    assert (
        console("tools:read")
        .post("/console/tools", data={"action": "disable", "tool": "pad.zap"})
        .status_code
        == 403
    )
    assert read(console("tools:read", "calls:read"), "/console/tools").text.count("Calls, 7 days") == 1
    read(console("calls:read"), "/console/tools", status=403)


def test_key_with_restrictions_sees_its_own_tools_only(console):
    assert read(console("tools:read", providers=["pad"]), "/console/tools").rows[0] == "pad.quilt00"
    assert (
        read(console("tools:read", providers=["other"], allow_unknown_providers=True), "/console/tools").rows
        == []
    )


def test_selection_is_exported_in_a_dialect(console):
    client = console("tools:read")
    response = client.get("/console/tool-export", params={"tool": "pad.zap", "format": "anthropic"})
    assert response.headers["content-disposition"] == 'attachment; filename="tools-anthropic.json"'
    assert [tool["name"] for tool in response.json()["tools"]] == ["pad_zap"]
    every = client.get("/console/tool-export", params={"all": "1", "provider": "pad", "format": "mcp"})
    assert len(every.json()["tools"]) == 61
    none = client.get("/console/tool-export")
    assert none.headers["location"].startswith("/console/tools?notice=tools-none-selected")


def test_names_of_providers_are_suggested(console):
    assert '<option value="pad">' in read(console(), "/console/provider-names", fragment="names").html

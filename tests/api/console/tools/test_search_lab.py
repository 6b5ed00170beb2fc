"""The search lab and the palette."""

from tests.api.console.console_page import post, read


def test_matches_are_explained_to_who_may_have_that(console):
    admin = read(console(), "/console/search?q=zap+quilt00&limit=5")
    assert "pad.zap" in admin.text
    assert "Words:" in admin.text
    assert "tokens of definitions" in admin.text
    reader = read(console("tools:read"), "/console/search?q=zap")
    assert "pad.zap" in reader.text
    assert "Scores are explained to keys with providers:read" in reader.text
    assert "Synonyms" not in reader.text
    limited = read(console("tools:read", "providers:read", providers=["pad"]), "/console/search?q=zap")
    assert "Scores are explained to keys" in limited.text


def test_several_texts_are_searched_in_turn(console):
    page = read(console(), "/console/search?q=zap&q=quilt07&q=&limit=5", fragment="results")
    assert page.text.index("pad.zap") < page.text.index("pad.quilt07")


def test_misspelt_word_leads_to_the_one_that_was_meant(console):
    page = read(console(), "/console/search?q=forcasts+of+quilts")
    assert "/console/search?q=forecast%20of%20quilts" in page.links


def test_synonyms_are_created_counted_and_deleted(console, gateway):
    client = console()
    location = post(client, "/console/search/synonyms", terms="electrocute, zap", back="electrocute")
    assert location.startswith("/console/search?q=electrocute&notice=synonyms-created&undo=")
    page = read(client, "/console/search?q=electrocute")
    assert "pad.zap" in page.text
    assert "electrocute, zap" in page.text
    with gateway.client() as admin:
        (found,) = admin.get("/search/synonyms?q=electrocute").json()["items"]
    deleted = post(client, "/console/search/synonyms/delete", id=found["id"])
    assert "notice=synonyms-deleted&undo=" in deleted
    assert "undo_field=terms%3Delectrocute%2C%20zap" in deleted
    assert "Nothing matches" in read(client, "/console/search?q=electrocute").text


def test_tool_is_pinned_to_a_search_before_those_that_are(console, gateway):
    client = console()
    post(client, "/console/search/pins", query="pad something", tools="pad.zap", back="pad something")
    post(client, "/console/search/pins", query="Pad something", tools="pad.quilt03")
    with gateway.client() as admin:
        (found,) = admin.get("/search/pins?q=pad something").json()["items"]
    assert found["tools"] == ["pad.quilt03", "pad.zap"]
    page = read(client, "/console/search?q=pad+something")
    assert page.text.index("pad.quilt03") < page.text.index("pad.zap")
    assert "pinned: +200" in page.text
    assert "notice=pin-deleted&undo=" in post(client, "/console/search/pins/delete", id=found["id"])


def test_rejected_synonyms_are_explained(console):
    response = console().post("/console/search/synonyms", data={"terms": "one"})
    assert response.status_code == 422
    assert "terms" in response.text


def test_what_was_learned_is_deleted_only_when_said_so(console):
    client = console()
    assert "notice=usage-not-deleted" in post(client, "/console/search/usage/delete")
    assert "notice=usage-deleted" in post(client, "/console/search/usage/delete", everything="1")
    assert client.post("/console/search/usage/delete", data={"tool": "pad.none"}).status_code == 404


def test_palette_has_the_tool_of_exactly_this_name_first(console):
    page = read(console(), "/console/go?q=pad.zap", fragment="targets")
    assert page.links[0] == "/console/tools/pad.zap"
    assert "<!DOCTYPE" not in page.html
    assert read(console(), "/console/go?q=PAD.ZAP", fragment="targets").links[0] == "/console/tools/pad.zap"


def test_palette_finds_pages_actions_providers_toolsets_and_keys(console, gateway):
    client = console()
    with gateway.client() as admin:
        made = admin.post("/keys", json={"name": "padding agent", "scopes": ["tools:read"]}).json()
        admin.put("/toolsets/padded", json={"definition": {"tools": ["pad.zap"]}})
    links = read(client, "/console/go?q=pad").links
    assert {"/console/providers/pad", "/console/toolsets/padded", f"/console/keys/{made['id']}"} <= set(links)
    assert "/console/toolsets" in read(client, "/console/go?q=toolse", fragment="targets").links
    assert "/console/add" in read(client, "/console/go?q=add", fragment="targets").links
    with gateway.client() as admin:
        admin.delete("/toolsets/padded")


def test_palette_offers_what_the_key_may_use(console):
    links = read(console("tools:read"), "/console/go?q=", fragment="targets").links
    assert "/console/tools" in links
    assert not {"/console/keys", "/console/add", "/console/calls"} & set(links)
    assert "/console/tools/pad.zap" in read(console("tools:read"), "/console/go?q=zap").links


def test_palette_takes_any_text(console):
    assert read(console(), "/console/go", fragment="targets").links
    odd = console().get("/console/go", params={"q": "\u0000\U0001f600<b>" + "x" * 9000})
    assert odd.status_code == 200
    assert "<b>x" not in odd.text

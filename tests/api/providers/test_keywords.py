"""Keywords of tools and the language of documents: from a registration to the tool, the export and back."""

import asyncio
import json

import orjson
import pytest
from aiohttp import web

from tests.harness.cases import for_each

from .documents import manual, openapi, tool

OVERLAY = {
    "overlay": "1.0.0",
    "info": {"title": "Words", "version": "1"},
    "actions": [
        {"target": "$.paths['/a'].get", "update": {"x-keywords": ["voucher"]}},
        {"target": "$.info", "update": {"x-language": "de"}},
    ],
}


def document(url, **info):
    """Two operations: one with keywords at each level, one with those of the document alone."""
    found = openapi(url, paths=("/a", "/b"))
    found["info"] |= {"x-keywords": ["commerce"], **info}
    found["tags"] = [{"name": "shop", "x-keywords": "store, outlet"}]
    found["paths"]["/a"]["x-keywords"] = ["rebate"]
    found["paths"]["/a"]["get"] |= {"x-keywords": ["coupon", "voucher"], "tags": ["shop"]}
    return found


ALL = ["coupon", "voucher", "rebate", "store", "outlet", "commerce"]


async def register(admin, source, name="pets", **more):
    made = await admin.post("/providers", json={"name": name, "source": source, **more})
    assert made.status_code == 201, made.text
    return made.json()


async def keywords_of(admin, name):
    one = (await admin.get(f"/tools/{name}")).json()["keywords"]
    listed = (await admin.get("/tools?limit=200")).json()["items"]
    assert [item["keywords"] for item in listed if item["name"] == name] == [one]
    return one


async def language_of(admin, name="pets"):
    one = (await admin.get(f"/providers/{name}")).json()["language"]
    listed = (await admin.get("/providers?limit=200")).json()["items"]
    assert [item["language"] for item in listed if item["name"] == name] == [one]
    return one


async def history_of(admin, name):
    return [one["changes"] for one in (await admin.get(f"/tools/{name}/history")).json()["items"]]


async def test_keywords_of_each_level_are_shown(admin, upstream):
    await register(admin, {"document": document(upstream.url)})
    assert await keywords_of(admin, "pets.listA") == ALL
    assert await keywords_of(admin, "pets.listB") == ["commerce"]


async def test_a_preview_shows_keywords_and_language(admin, upstream):
    body = {"name": "pets", "source": {"document": document(upstream.url, **{"x-language": "pt_br"})}}
    seen = (await admin.post("/providers/preview", json=body)).json()
    assert seen["language"] == "pt-BR"
    assert [one["keywords"] for one in seen["tools"]] == [ALL, ["commerce"]]


async def test_an_overlay_sets_them_and_a_refresh_applies_it_again(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url, paths=("/a",))
    await register(admin, {"url": f"{upstream.url}/openapi.json", "overlay": OVERLAY})
    assert await keywords_of(admin, "pets.listA") == ["voucher"]
    assert await language_of(admin) == "de"
    changed = openapi(upstream.url, paths=("/a",))
    changed["info"]["x-keywords"] = ["commerce"]
    upstream.pages["/openapi.json"] = changed
    assert (await admin.post("/providers/pets/refresh")).json()["difference"]["changed"] == ["GET /a"]
    assert await keywords_of(admin, "pets.listA") == ["voucher", "commerce"]
    assert (await admin.post("/providers/pets/refresh")).json()["difference"]["unchanged"] == ["GET /a"]


async def test_a_refresh_recomputes_them_from_the_document(admin, upstream):
    upstream.pages["/openapi.json"] = document(upstream.url)
    await register(admin, {"url": f"{upstream.url}/openapi.json"})
    changed = document(upstream.url)
    changed["paths"]["/a"]["get"]["x-keywords"] = ["gift card"]
    upstream.pages["/openapi.json"] = changed
    difference = (await admin.post("/providers/pets/refresh")).json()["difference"]
    assert (difference["changed"], difference["compatibility"]) == (["GET /a"], "compatible")
    now = ["gift card", *ALL[2:]]
    assert await keywords_of(admin, "pets.listA") == now
    assert (await history_of(admin, "pets.listA"))[0] == [
        {"field": "keywords", "before": ALL, "after": now, "truncated": False}
    ]
    upstream.pages["/openapi.json"] = openapi(upstream.url, paths=("/a", "/b"))
    assert (await admin.post("/providers/pets/refresh")).status_code == 200
    assert await keywords_of(admin, "pets.listA") == []


async def test_what_cannot_be_read_is_in_the_report_with_its_pointer(admin, upstream):
    broken = document(upstream.url, **{"x-keywords": {"en": "x"}, "x-language": "german"})
    broken["paths"]["/a"]["get"]["x-keywords"] = ["coupon", 7, "k" * 101, "\x00", "x\u200by"]
    broken["paths"]["/b"]["get"]["x-keywords"] = [f"k{number}" for number in range(60)]
    made = await admin.post(
        "/providers?name=pets",
        content=json.dumps(broken),
        headers={"Content-Type": "application/json"},
    )
    assert made.status_code == 201, made.text
    pointers = {one["pointer"] for one in made.json()["report"]["warnings"]}
    # U+0000 is removed from the whole document, with a warning about it.
    assert sorted(pointers - {""}) == [
        "/info/x-keywords",
        "/info/x-language",
        "/paths/~1a/get/x-keywords/1",
        "/paths/~1a/get/x-keywords/2",
        "/paths/~1b/get/x-keywords",
    ]
    assert await keywords_of(admin, "pets.listA") == ["coupon", "xy", "rebate", "store", "outlet"]
    assert len(await keywords_of(admin, "pets.listB")) == 50
    assert await language_of(admin) is None


async def test_a_patch_overrides_them_and_null_reverts_to_the_source(admin, upstream):
    upstream.pages["/openapi.json"] = document(upstream.url)
    await register(admin, {"url": f"{upstream.url}/openapi.json"})
    patched = await admin.patch("/tools/pets.listA", json={"keywords": ["Gift card", "gift CARD", "present"]})
    assert patched.status_code == 200, patched.text
    assert patched.json()["keywords"] == ["Gift card", "present"]
    assert (await admin.post("/providers/pets/refresh")).status_code == 200
    assert await keywords_of(admin, "pets.listA") == ["Gift card", "present"]
    assert (await history_of(admin, "pets.listA"))[0] == [
        {"field": "keywords", "before": ALL, "after": ["Gift card", "present"], "truncated": False}
    ]
    assert (await admin.patch("/tools/pets.listA", json={"keywords": []})).json()["keywords"] == []
    assert (await admin.patch("/tools/pets.listA", json={"keywords": None})).json()["keywords"] == ALL


async def test_an_override_is_retained_while_the_source_does_not_have_the_tool(admin, upstream):
    upstream.pages["/openapi.json"] = document(upstream.url)
    await register(admin, {"url": f"{upstream.url}/openapi.json"})
    await admin.patch("/tools/pets.listA", json={"keywords": ["mine"]})
    for paths in (("/b",), ("/a", "/b")):
        upstream.pages["/openapi.json"] = openapi(upstream.url, paths=paths)
        assert (await admin.post("/providers/pets/refresh")).status_code == 200
    assert await keywords_of(admin, "pets.listA") == ["mine"]


@pytest.fixture
async def pets(admin, upstream):
    """A provider of this name."""
    await register(admin, {"document": document(upstream.url)})


@for_each(
    ("keywords", "pointer"),
    [
        ("coupon", "/keywords"),
        ([7], "/keywords/0"),
        (["a", ""], "/keywords/1"),
        (["   "], "/keywords/0"),
        (["k" * 101], "/keywords/0"),
        (["a\x00b"], "/keywords/0"),
        (["a\nb"], "/keywords/0"),
        ([f"k{number}" for number in range(51)], "/keywords"),
    ],
)
async def test_a_patch_rejects_other_values(keywords, pointer, admin, pets):
    response = await admin.patch("/tools/pets.listA", json={"keywords": keywords})
    assert response.status_code == 422
    assert [one["pointer"] for one in response.json()["errors"]] == [pointer]
    assert await keywords_of(admin, "pets.listA") == ALL


async def test_a_batch_changes_them(admin, upstream):
    await register(admin, {"document": document(upstream.url)})
    operation = {"filter": {"provider": "pets"}, "patch": {"keywords": ["both"]}}
    done = (await admin.post("/tools:batch", json={"operations": [operation]})).json()
    assert done["counts"]["changed"] == 2
    again = (await admin.post("/tools:batch", json={"operations": [operation]})).json()
    assert again["counts"]["unchanged"] == 2
    assert await keywords_of(admin, "pets.listB") == ["both"]


async def test_custom_tools_have_keywords(admin, upstream):
    body = {"provider": "own", "name": "echo", "call_template": {"url": f"{upstream.url}/e"}}
    made = await admin.post("/tools", json={**body, "keywords": ["parrot", "Parrot", "repeat"]})
    assert made.status_code == 201, made.text
    assert made.json()["keywords"] == ["parrot", "repeat"]
    assert await keywords_of(admin, "own.echo") == ["parrot", "repeat"]
    response = await admin.post("/tools", json={**body, "name": "other", "keywords": ["k" * 101]})
    assert [one["pointer"] for one in response.json()["errors"]] == ["/keywords/0"]


async def test_tools_of_manuals_have_their_own_and_those_of_the_manual(admin, upstream):
    named = {**tool("echo", f"{upstream.url}/e"), "x-keywords": ["parrot", 7]}
    raw = manual(named, tool("other", f"{upstream.url}/o")) | {
        "x-keywords": "sound, voice",
        "x-lang": "fr-CA",
    }
    made = await admin.post("/providers?name=m", json=raw)
    assert made.status_code == 201, made.text
    assert [one["pointer"] for one in made.json()["report"]["warnings"]] == ["/tools/0/x-keywords/1"]
    assert await keywords_of(admin, "m.echo") == ["parrot", "sound", "voice"]
    assert await keywords_of(admin, "m.other") == ["sound", "voice"]
    assert await language_of(admin, "m") == "fr-CA"
    assert (await admin.post("/providers/m/refresh")).json()["difference"]["unchanged"] == ["echo", "other"]


async def test_an_export_and_its_import_keep_them(admin, upstream):
    upstream.pages["/openapi.json"] = web.json_response(
        document(upstream.url), headers={"Content-Language": "nl"}
    )
    await register(admin, {"url": f"{upstream.url}/openapi.json"})
    await register(
        admin, {"manual": manual({**tool("echo", f"{upstream.url}/e"), "x-keywords": ["parrot"]})}, name="m",
        language="es",
    )  # fmt: skip
    await admin.post("/tools", json={"provider": "pets", "name": "own", "keywords": ["custom"],
                                     "call_template": {"url": f"{upstream.url}/h"}})  # fmt: skip
    await admin.patch("/tools/pets.listB", json={"keywords": ["edited"]})
    export = (await admin.get("/export")).json()
    for name in ("pets", "m"):
        await admin.delete(f"/providers/{name}")
    back = await admin.post("/import", json=export)
    assert back.status_code == 200, back.text
    assert [one["outcome"] for one in back.json()["entries"]] == ["registered", "registered"]
    found = {
        name: await keywords_of(admin, name) for name in ("pets.listA", "pets.listB", "pets.own", "m.echo")
    }
    assert found == {
        "pets.listA": ALL,
        "pets.listB": ["edited"],
        "pets.own": ["custom"],
        "m.echo": ["parrot"],
    }
    assert [await language_of(admin, name) for name in ("pets", "m")] == ["nl", "es"]
    again = (await admin.get("/export")).json()
    for one, other in zip(export["providers"], again["providers"], strict=True):
        for member in ("language", "document_language", "overrides", "tools"):
            assert one[member] == other[member], member


async def test_an_export_without_them_is_imported(admin, upstream):
    await register(admin, {"document": document(upstream.url)})
    await admin.patch("/tools/pets.listB", json={"description": "edited"})
    export = (await admin.get("/export")).json()
    (provider,) = export["providers"]
    for member in ("language", "document_language"):
        del provider[member]
    del provider["overrides"]["GET /b"]["keywords"]
    await admin.delete("/providers/pets")
    assert (await admin.post("/import", json=export)).json()["entries"][0]["outcome"] == "registered"
    assert await keywords_of(admin, "pets.listA") == ALL


async def test_a_response_says_the_language_where_the_document_does_not(admin, upstream):
    def serve(body, language):
        headers = {"Content-Language": language}
        # A response can be sent once.
        upstream.pages["/openapi.json"] = lambda: asyncio.sleep(0, web.json_response(body, headers=headers))

    serve(document(upstream.url), "de-at")
    await register(admin, {"url": f"{upstream.url}/openapi.json"})
    assert await language_of(admin) == "de-AT"
    serve(document(upstream.url, **{"x-language": "fr"}), "de")
    await admin.post("/providers/pets/refresh")
    assert await language_of(admin) == "fr"
    serve(document(upstream.url), "de, en")
    await admin.post("/providers/pets/refresh")
    assert await language_of(admin) == "fr"


@pytest.mark.parametrize("at", ["x-language", "x-lang"])
@pytest.mark.parametrize("in_info", [False, True])
async def test_the_document_says_its_language(at, in_info, admin, upstream):
    found = openapi(upstream.url)
    (found["info"] if in_info else found)[at] = "pt-br"
    await register(admin, {"document": found})
    assert await language_of(admin) == "pt-BR"


async def test_the_registrars_language_has_precedence_and_null_reverts(admin, upstream):
    upstream.pages["/openapi.json"] = document(upstream.url, **{"x-language": "de"})
    made = await register(admin, {"url": f"{upstream.url}/openapi.json"}, language="EN-gb")
    assert made["language"] == "en-GB"
    assert (await admin.post("/providers/pets/refresh")).json()["language"] == "en-GB"
    patched = await admin.patch("/providers/pets", json={"language": "fr"})
    assert (patched.status_code, patched.json()["language"]) == (200, "fr")
    assert (await admin.patch("/providers/pets", json={"description": "x"})).json()["language"] == "fr"
    assert (await admin.patch("/providers/pets", json={"language": None})).json()["language"] == "de"


async def test_a_form_has_a_language(admin, upstream):
    files = {"file": ("a.json", orjson.dumps(openapi(upstream.url)), "application/json")}
    made = await admin.post("/providers", files=files, data={"name": "pets", "language": "sv"})
    assert (made.status_code, made.json()["language"]) == (201, "sv")


@for_each("language", ["german", "de,en", "*", "", "de_AT", "x" * 100, 7, ["de"]])
async def test_a_language_that_is_no_tag_is_rejected(language, admin, upstream):
    body = {"name": "pets", "source": {"document": openapi(upstream.url)}}
    response = await admin.post("/providers", json={**body, "language": language})
    assert response.status_code == 422
    assert [one["pointer"] for one in response.json()["errors"]] == ["/language"]
    await admin.post("/providers", json=body)
    response = await admin.patch("/providers/pets", json={"language": language})
    assert [one["pointer"] for one in response.json()["errors"]] == ["/language"]


async def test_the_error_of_a_language_says_what_a_tag_is(admin, upstream):
    body = {"name": "pets", "source": {"document": openapi(upstream.url)}, "language": "german"}
    (error,) = (await admin.post("/providers", json=body)).json()["errors"]
    assert error["detail"] == "A language tag is that of BCP 47, such as `de` or `pt-BR`."

"""Definitions that could never work are rejected when they are registered, not at each call."""

import pytest

from .documents import manual, openapi, tool

BAD = [
    ({"header_fields": ["Authorization"]}, "/header_fields/0"),
    ({"http_method": "POST", "content_type": "a\r\nb"}, "/content_type"),
]
OPTIONS = [
    ({"ca_bundle": "garbage"}, "/options/ca_bundle"),
    ({"ca_bundle": "g\u00e4rbage"}, "/options/ca_bundle"),
    ({"proxy_url": "ftp://zz"}, "/options/proxy_url"),
    ({"client_certificate": "garbage"}, "/options/client_certificate"),
]


@pytest.mark.parametrize(("template", "place"), BAD)
async def test_a_tool_that_could_never_be_called_is_skipped_with_its_reason(admin, upstream, template, place):
    bad = tool("bad", f"{upstream.url}/b", **template)
    made = await admin.post("/providers?name=m", json=manual(bad, tool("good", f"{upstream.url}/g")))
    assert made.status_code == 201, made.text
    verdict, good = made.json()["report"]["operations"]
    assert (verdict["verdict"], verdict["pointer"]) == ("skipped", f"/tools/0/tool_call_template{place}")
    assert "never be called" in verdict["reason"]
    assert good["verdict"] == "accepted"
    body = {"provider": "m", "name": "x", "call_template": bad["tool_call_template"]}
    refused = await admin.post("/tools", json=body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["pointer"] == f"/call_template{place}"


@pytest.mark.parametrize(("template", "place"), BAD)
async def test_such_a_tool_of_an_export_is_skipped_too(admin, upstream, template, place):
    made = await admin.post(
        "/providers?name=m", json=manual(tool("a", f"{upstream.url}/a"), tool("b", f"{upstream.url}/b"))
    )
    assert made.status_code == 201
    export = (await admin.get("/export")).json()
    export["providers"][0]["tools"][1]["call_template"] |= template
    await admin.delete("/providers/m")
    back = await admin.post("/import", json=export)
    assert back.status_code == 200, back.text
    operations = back.json()["entries"][0]["report"]["operations"]
    assert [one["verdict"] for one in operations] == ["accepted", "skipped"]
    assert place in operations[1]["reason"]
    assert (await admin.get("/tools?provider=m")).json()["items"][0]["name"] == "m.a"


@pytest.mark.parametrize(("options", "place"), OPTIONS)
async def test_outbound_options_that_cannot_work_are_rejected(admin, upstream, options, place):
    body = {"name": "pets", "source": {"document": openapi(upstream.url)}, "options": options}
    for path in ("/providers", "/providers/preview"):
        refused = await admin.post(path, json=body)
        assert refused.status_code == 422, refused.text
        assert refused.json()["errors"][0]["pointer"] == place
    assert (await admin.post("/providers", json={**body, "options": {}})).status_code == 201
    refused = await admin.patch("/providers/pets", json={"options": options})
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["pointer"] == place
    found = (await admin.get("/providers/pets")).json()
    assert (found["version"], found["options"]) == (1, {})

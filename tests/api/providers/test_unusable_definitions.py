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


@pytest.mark.parametrize(("template", "pointer"), BAD)
async def test_a_tool_that_could_never_be_called_is_skipped_with_its_reason(
    admin, upstream, template, pointer
):
    bad = tool("bad", f"{upstream.url}/b", **template)
    made = await admin.post("/providers?name=m", json=manual(bad, tool("good", f"{upstream.url}/g")))
    assert made.status_code == 201, made.text
    skipped, good = made.json()["report"]["operations"]
    assert (skipped["outcome"], skipped["pointer"]) == ("skipped", f"/tools/0/tool_call_template{pointer}")
    assert "never be called" in skipped["reason"]
    assert good["outcome"] == "accepted"
    body = {"provider": "m", "name": "x", "call_template": bad["tool_call_template"]}
    rejected = await admin.post("/tools", json=body)
    assert rejected.status_code == 422, rejected.text
    assert rejected.json()["errors"][0]["pointer"] == f"/call_template{pointer}"


@pytest.mark.parametrize(("template", "pointer"), BAD)
async def test_a_tool_of_an_export_that_could_never_be_called_is_skipped(admin, upstream, template, pointer):
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
    assert [one["outcome"] for one in operations] == ["accepted", "skipped"]
    assert pointer in operations[1]["reason"]
    assert (await admin.get("/tools?provider=m")).json()["items"][0]["name"] == "m.a"


@pytest.mark.parametrize(("options", "pointer"), OPTIONS)
async def test_outbound_options_that_cannot_work_are_rejected(admin, upstream, options, pointer):
    body = {"name": "pets", "source": {"document": openapi(upstream.url)}, "options": options}
    for path in ("/providers", "/providers/preview"):
        rejected = await admin.post(path, json=body)
        assert rejected.status_code == 422, rejected.text
        assert rejected.json()["errors"][0]["pointer"] == pointer
    assert (await admin.post("/providers", json={**body, "options": {}})).status_code == 201
    rejected = await admin.patch("/providers/pets", json={"options": options})
    assert rejected.status_code == 422, rejected.text
    assert rejected.json()["errors"][0]["pointer"] == pointer
    found = (await admin.get("/providers/pets")).json()
    assert (found["version"], found["options"]) == (1, {})

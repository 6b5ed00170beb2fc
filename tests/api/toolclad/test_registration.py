"""Manifests as documents of `POST /providers`: one, several, an archive; what is rejected, and what follows."""

import io
import zipfile

import orjson
import pytest

from tests.api.toolclad.conftest import SECRET
from tests.api.toolclad.test_calls import VARIABLES, lookup

BAD = '[tool]\nname = "bad"\ndescription = "d"\n[session]\nstartup_command = "sh"\n'
SCAN = """
[tool]
name = "scan"
description = "Scan ports of a service."
risk_tier = "high"
human_approval = true

[args.service]
type = "service"
required = true

[http]
url = "{url}/scan?service={service}"

[output]
format = "json"
[output.schema]
"""
PROJECT = '[types.service]\nbase = "enum"\nallowed = ["ssh", "http"]\n'


def archive(files: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, text in files.items():
            opened.writestr(name, text)
    return made.getvalue()


def files(url: str) -> dict[str, str]:
    return {
        "tools/lookup.clad.toml": lookup(url),
        "tools/scan.clad.toml": SCAN.replace("{url}", url),
        "tools/bad.clad.toml": BAD,
        "toolclad.toml": PROJECT,
    }


@pytest.mark.parametrize("media_type", ["application/toml", "text/x-toml", "text/plain", "application/yaml"])
async def test_a_manifest_is_a_body_of_its_own(clad, site, media_type) -> None:
    text = lookup(site.url).replace("{_secret:words}", "none")
    made = await clad.client.post("/providers?name=w", content=text, headers={"Content-Type": media_type})
    assert made.status_code == 201, made.text
    assert made.json()["report"]["counts"]["accepted"] == 1
    assert (await clad.call("w.lookup", {"word": "a"})).status_code == 200


async def test_a_manifest_is_a_file_of_a_form(clad, site) -> None:
    made = await clad.client.post(
        "/providers",
        files={"file": ("lookup.clad.toml", lookup(site.url), "application/toml")},
        data={"name": "w", "variables": orjson.dumps(VARIABLES).decode()},
    )
    assert made.status_code == 201, made.text
    assert (await clad.call("w.lookup", {"word": "a"})).status_code == 200


@pytest.mark.parametrize("form", ["zip", "multipart", "json"])
async def test_several_manifests_are_one_provider_and_a_bad_one_is_reported(clad, site, form) -> None:
    given = files(site.url)
    flat = {name.rpartition("/")[2]: text for name, text in given.items()}
    if form == "zip":
        made = await clad.client.post(
            "/providers?name=kit", content=archive(given), headers={"Content-Type": "application/zip"}
        )
        # The variable of the secret is missing, so that tool is reported, too.
        assert made.status_code == 201, made.text
        await clad.client.put("/providers/kit/variables/TOOLCLAD_SECRET_WORDS", json={"value": SECRET})
        prefix = "tools/"
    elif form == "multipart":
        made = await clad.client.post(
            "/providers",
            files=[("file", (name, text)) for name, text in flat.items()],
            data={"name": "kit", "variables": orjson.dumps(VARIABLES).decode()},
        )
        prefix = ""
    else:
        body = {"name": "kit", "source": {"manifests": flat}, "variables": VARIABLES}
        made = await clad.client.post("/providers", json=body)
        prefix = ""
    assert made.status_code == 201, made.text
    by_key = {one["source_key"]: one for one in made.json()["report"]["operations"]}
    bad = by_key[f"{prefix}bad.clad.toml"]
    assert bad["outcome"] == "skipped"
    assert "interactive" in bad["reason"]
    assert bad["pointer"] == f"/{prefix.replace('/', '~1')}bad.clad.toml/session"
    assert by_key["scan"]["outcome"] == "accepted"
    tool = (await clad.client.get("/tools/kit.scan")).json()
    assert tool["inputs"]["properties"]["service"]["enum"] == ["ssh", "http"]


async def test_a_single_bad_manifest_is_rejected_with_its_places(clad) -> None:
    problem = await clad.register("bad", BAD, expected=422)
    assert problem["errors"][0]["pointer"] == "/source/document/session"
    made = await clad.client.post(
        "/providers?name=bad", content=BAD, headers={"Content-Type": "application/toml"}
    )
    assert (made.status_code, made.json()["errors"][0]["pointer"]) == (422, "/session")
    assert (await clad.client.get("/providers/bad")).status_code == 404
    everything = archive({"a.clad.toml": BAD, "b.clad.toml": "[tool]\n"})
    made = await clad.client.post(
        "/providers?name=bad", content=everything, headers={"Content-Type": "application/zip"}
    )
    assert made.status_code == 422
    assert {one["pointer"].split("/")[1] for one in made.json()["errors"]} == {"a.clad.toml", "b.clad.toml"}


@pytest.mark.parametrize(
    ("name", "text"),
    [("../x.clad.toml", "x"), ("notes.txt", "x"), ("a/b.clad.toml", "x"), ("x.clad.toml\x00", "x")],
)
async def test_a_file_of_another_name_is_not_packed(clad, name, text) -> None:
    body = {"name": "kit", "source": {"manifests": {name: text}}}
    made = await clad.client.post("/providers", json=body)
    assert made.status_code == 422, made.text


async def test_a_missing_secret_is_named_and_no_secret_is_shown(clad, site) -> None:
    text = lookup(site.url)
    problem = await clad.register("w", text, expected=422)
    assert "TOOLCLAD_SECRET_WORDS" in problem["detail"]
    made = await clad.register("w", text, variables=VARIABLES)
    shown = [orjson.dumps(made).decode()]
    paths = ("/providers/w", "/tools/w.lookup", "/utcp", "/utcp?mode=direct", "/tools/export", "/export")
    shown += [(await clad.client.get(path)).text for path in paths]
    preview = await clad.client.post("/tools/w.lookup/call?dry_run=true", json={"word": "sea"})
    assert preview.json()["url"] == f"{site.url}/words/sea?limit=10"
    assert preview.json()["headers"]["Authorization"] == "Bearer ***"
    assert orjson.loads(preview.json()["body"])["key"] == "***"
    site.status, site.body = 400, f'{{"error": "key {SECRET} is bad"}}'.encode()
    failed = await clad.call("w.lookup", {"word": "sea"})
    shown += [preview.text, failed.text, (await clad.envelope("w.lookup", {"word": "sea"})).text]
    site.status = 200
    shown.append((await clad.call("w.lookup", {"word": "sea"})).text)
    await clad.application.services.call_log.flush()
    for call in (await clad.client.get("/calls?limit=10")).json()["items"]:
        shown.append((await clad.client.get(f"/calls/{call['id']}/bodies")).text)
        shown.append((await clad.client.get(f"/calls/{call['id']}/envelope")).text)
    assert not [one for one in shown if SECRET in one]


async def test_a_call_that_needs_a_yes_waits_for_another_key_and_is_made_once(clad, site) -> None:
    flat = {"scan.clad.toml": SCAN.replace("{url}", site.url), "toolclad.toml": PROJECT}
    made = await clad.client.post("/providers", json={"name": "kit", "source": {"manifests": flat}})
    assert made.status_code == 201, made.text
    tool = (await clad.client.get("/tools/kit.scan")).json()
    assert tool["requires_approval"] is True
    assert tool["annotations"]["destructive"] is True
    assert tool["annotations"]["risk_tier"] == "high"
    assert tool["annotations"]["read_only"] is False
    waiting = await clad.envelope("kit.scan", {"service": "ssh"})
    assert waiting.status_code == 202, waiting.text
    assert site.requests == []
    approver = await clad.application.client("approvals:decide")
    path = f"/approvals/{waiting.json()['approval']['id']}"
    decided = await approver.post(f"{path}/approve")
    assert decided.status_code == 200, decided.text
    assert [one["path"] for one in site.requests] == ["/scan?service=ssh"]
    await approver.post(f"{path}/approve")
    assert len(site.requests) == 1
    result = (await clad.client.get(path)).json()
    assert result["state"] == "executed", result
    kept = await clad.client.patch("/tools/kit.scan", json={"requires_approval": False})
    assert kept.status_code == 403


async def test_tools_of_manifests_are_found_listed_and_called_as_any_other(clad, site) -> None:
    await clad.register("w", lookup(site.url), variables=VARIABLES)
    hits = (await clad.client.get("/tools/search?q=look+a+word+up")).json()["items"]
    assert hits[0]["name"] == "w.lookup"
    manual = (await clad.client.get("/utcp")).json()
    assert "w.lookup" in str([one["name"] for one in manual["tools"]]) or "w_lookup" in str(manual)
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "w_lookup", "arguments": {"word": "sea", "limit": "900"}}}  # fmt: skip
    called = await clad.client.post("/mcp", json=message, headers=headers)
    assert called.status_code == 200, called.text
    assert "ok" in called.text
    assert "was repaired" in called.text
    assert site.requests[-1]["path"] == "/words/sea?limit=50"


async def test_a_new_version_of_an_archive_is_compared_with_the_old_one(clad, site) -> None:
    await clad.register("w", lookup(site.url), variables=VARIABLES)
    changed = lookup(site.url).replace("max = 50", "max = 60").replace("Look a word up.", "Look up a word.")
    preview = await clad.client.post(
        "/providers/preview", json={"name": "w", "source": {"document": changed}, "variables": VARIABLES}
    )
    assert preview.status_code == 200, preview.text
    assert preview.json()["difference"]["changed"] == ["lookup"], preview.text
    refreshed = await clad.client.post("/providers/w/refresh")
    assert refreshed.status_code == 200, refreshed.text


async def test_an_export_restores_the_tools(clad, site) -> None:
    await clad.register("w", lookup(site.url), variables=VARIABLES)
    exported = (await clad.client.get("/export")).json()
    await clad.client.delete("/providers/w")
    restored = await clad.client.post("/import", json=exported)
    assert restored.status_code in (200, 201, 207), restored.text
    stored = await clad.client.put("/providers/w/variables/TOOLCLAD_SECRET_WORDS", json={"value": SECRET})
    assert stored.status_code < 300, stored.text
    tool = (await clad.client.get("/tools/w.lookup")).json()
    assert tool["call_template"]["toolclad"]["http"]["method"] == "POST"


async def test_two_manifests_of_one_name_are_not_one_tool(clad, site) -> None:
    text = lookup(site.url).replace("{_secret:words}", "x")
    body = {"name": "kit", "source": {"manifests": {"a.clad.toml": text, "b.clad.toml": text}}}
    made = await clad.client.post("/providers", json=body)
    assert made.status_code == 201, made.text
    outcomes = {one["pointer"]: one["outcome"] for one in made.json()["report"]["operations"]}
    assert sorted(outcomes.values()) == ["accepted", "skipped"]
    assert {at.split("/")[1] for at in outcomes} == {"a.clad.toml", "b.clad.toml"}


async def test_other_tools_have_no_envelope(clad, site) -> None:
    manual = {"utcp_version": "1.0.1", "tools": [{"name": "plain", "inputs": {}, "tool_call_template": {
        "call_template_type": "http", "url": f"{site.url}/plain"}}]}  # fmt: skip
    await clad.client.post("/providers", json={"name": "p", "source": {"manual": manual}})
    refused = await clad.envelope("p.plain", {})
    assert refused.status_code == 422
    assert site.requests == []
    plain = await clad.call(
        "p.plain", {}, Accept="application/vnd.toolclad.envelope+json, application/json;q=0.5"
    )
    assert plain.json() == {"ok": True}
    await clad.application.services.call_log.flush()
    missing = await clad.client.get(f"/calls/{plain.headers['x-call-id']}/envelope")
    assert missing.status_code == 404
    assert "CALL_LOG_BODIES" in missing.json()["detail"]


async def test_an_idempotent_repetition_has_the_same_envelope(clad, site) -> None:
    await clad.register("w", lookup(site.url), variables=VARIABLES)
    first = await clad.envelope("w.lookup", {"word": "sea"}, **{"Idempotency-Key": "toolclad-1"})
    again = await clad.envelope("w.lookup", {"word": "sea"}, **{"Idempotency-Key": "toolclad-1"})
    assert first.status_code == 200, first.text
    assert again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    assert len(site.requests) == 1


async def test_a_long_output_has_an_envelope_but_no_evidence_in_its_record(clad, site) -> None:
    site.body = orjson.dumps({"ok": True, "text": "x" * (1 << 20)})
    await clad.register("w", lookup(site.url), variables=VARIABLES)
    response = await clad.envelope("w.lookup", {"word": "sea"})
    assert response.json()["results"]["ok"] is True
    await clad.application.services.call_log.flush()
    missing = await clad.client.get(f"/calls/{response.headers['x-call-id']}/envelope")
    assert missing.status_code == 404
    assert "CALL_LOG_MAX_BODY_BYTES" in missing.json()["detail"]


async def test_a_reader_of_records_without_bodies_gets_no_envelope(clad, site) -> None:
    await clad.register("w", lookup(site.url), variables=VARIABLES)
    response = await clad.envelope("w.lookup", {"word": "sea"})
    await clad.application.services.call_log.flush()
    reader = await clad.application.client("calls:read")
    refused = await reader.get(f"/calls/{response.headers['x-call-id']}/envelope")
    assert refused.status_code == 403


async def test_a_fetched_manifest_runs_no_program_and_gets_no_secret(clad, site) -> None:
    site.media_type = "text/plain"
    site.body = b'[tool]\nname = "x"\ndescription = "d"\n[command]\nexec = ["echo", "hi"]\n[output]\n[output.schema]\n'
    made = await clad.client.post("/providers", json={"name": "f", "url": f"{site.url}/x.clad.toml"})
    assert made.status_code == 422, made.text
    await clad.client.put("/variables/TOOLCLAD_SECRET_WORDS", json={"value": SECRET})
    site.body = lookup(site.url).encode()
    made = await clad.client.post("/providers", json={"name": "f", "url": f"{site.url}/x.clad.toml"})
    await clad.client.delete("/variables/TOOLCLAD_SECRET_WORDS")
    assert made.status_code == 422, made.text
    assert SECRET not in made.text


async def test_an_envelope_does_not_show_what_a_toolset_has_set(clad, site) -> None:
    await clad.register("w", lookup(site.url), variables=VARIABLES)
    admin = await clad.application.client("admin")
    definition = {"tools": ["w.lookup"], "changes": {"w.lookup": {"presets": {"word": "canary-preset"}}}}
    made = await admin.put("/toolsets/desk", json={"definition": definition})
    assert made.status_code == 201, made.text
    agent = await clad.application.client("tools:call")
    called = await agent.post("/toolsets/desk/tools/w.lookup/call?envelope=true", json={"limit": 2})
    await admin.delete("/toolsets/desk")
    assert called.status_code == 200, called.text
    assert "canary-preset" in site.requests[-1]["raw"]
    assert "canary-preset" not in called.text

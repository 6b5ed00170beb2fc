"""What a key that is limited to providers or tags learns about all others: nothing, not even their names."""

import asyncio
import re

import pytest

from .documents import manual, openapi, tool

SCOPES = ("providers:read", "providers:write", "tools:read", "tools:call", "metrics:read", "calls:read")
LIMITS = ({"providers": ("mine",)}, {"tags": ("team-a",)})


@pytest.fixture
async def two(admin, upstream):
    """A provider of the limited keys and one of others, both called."""
    for name, tags in (("mine", ["team-a"]), ("hidden", ["team-b"])):
        body = {"name": name, "source": {"manual": manual(tool("echo", f"{upstream.url}/e"))}, "tags": tags}
        assert (await admin.post("/providers", json=body)).status_code == 201
        assert (await admin.post(f"/tools/{name}.echo/call", json={})).status_code == 200
    return admin


@pytest.mark.parametrize("limits", LIMITS)
async def test_metrics_name_no_other_provider(two, gateway_app, limits):
    limited = await gateway_app.client("metrics:read", **limits)
    shown = await limited.get("/metrics")
    assert shown.status_code == 200, shown.text
    assert 'utcp_gateway_calls_total{outcome="ok",provider="mine"}' in shown.text
    assert 'utcp_gateway_bulkhead_limit{provider="mine"}' in shown.text
    assert "hidden" not in shown.text
    assert "utcp_gateway_requests_total{" in shown.text
    everything = (await two.get("/metrics")).text
    assert 'provider="hidden"' in everything
    assert 'provider="mine"' in everything


async def test_a_provider_is_seen_through_the_tag_of_a_tool(two, gateway_app):
    limited = await gateway_app.client("metrics:read", tags=("team-c",))
    assert "provider=" not in (await limited.get("/metrics")).text
    assert (await two.patch("/tools/hidden.echo", json={"tags": ["team-c"]})).status_code == 200
    shown = (await limited.get("/metrics")).text
    assert 'provider="hidden"' in shown
    assert 'provider="mine"' not in shown


@pytest.mark.parametrize("limits", LIMITS)
async def test_no_list_and_no_error_names_another_provider(two, gateway_app, limits):
    limited = await gateway_app.client(*SCOPES, **limits)
    for path in (
        "/providers", "/tools", "/tools/search?q=echo", "/tools/search", "/utcp", "/utcp?mode=direct", "/export",
        "/events", "/calls", "/variables",
    ):  # fmt: skip
        shown = await limited.get(path)
        assert shown.status_code == 200, shown.text
        assert "hidden" not in shown.text, path

    async def both(method, path, **body):
        """The same request for a provider of others and for one that does not exist."""
        found = [await limited.request(method, path.format(name), **body) for name in ("hidden", "absent")]
        return [
            # The position in an empty list of calls is that of its time.
            (one.status_code, re.sub(r'"position":"[^"]+"', "", one.text).replace(name, "?"))
            for one, name in zip(found, ("hidden", "absent"), strict=True)
        ]

    for method, path, body in (
        ("GET", "/providers/{}", None),
        ("GET", "/providers/{}/utcp", None),
        ("GET", "/providers/{}/utcp?mode=direct", None),
        ("GET", "/providers/{}/credentials", None),
        ("GET", "/providers/{}/variables", None),
        ("PATCH", "/providers/{}", {"options": {"base_url": "https://x.example"}}),
        ("DELETE", "/providers/{}", None),
        ("POST", "/providers/{}/refresh", {}),
        ("GET", "/tools/{}.echo", None),
        ("PATCH", "/tools/{}.echo", {"enabled": False}),
        ("DELETE", "/tools/{}.echo", None),
        ("GET", "/calls?provider={}", None),
        ("GET", "/tools?provider={}", None),
        ("GET", "/tools/search?provider={}", None),
    ):
        one, other = await both(method, path, json=body)
        assert one == other, (method, path)
    for name in ("hidden", "absent"):
        template = {"url": "https://x.example/x"}
        made = await limited.post("/tools", json={"provider": name, "name": "x", "call_template": template})
        assert made.status_code == 403, made.text
        assert name not in made.text


@pytest.mark.parametrize("limits", LIMITS)
async def test_a_tool_of_others_that_cannot_be_called_looks_like_an_absent_one(
    two, gateway_app, upstream, limits
):
    limited = await gateway_app.client(*SCOPES, **limits)
    body = {
        "provider": "hidden",
        "name": "broken",
        "call_template": {"url": f"{upstream.url}/${{SECRET_NAME}}"},
    }
    await two.put("/variables/SECRET_NAME", json={"value": "x", "secret": False})
    assert (await two.post("/tools", json=body)).status_code == 201
    assert (await two.delete("/variables/SECRET_NAME")).status_code == 204
    seen = await two.post("/tools/hidden.broken/call", json={})
    assert seen.status_code == 422
    assert "SECRET_NAME" in seen.text
    for path in ("/tools/{}/call", "/tools/{}/call?dry_run=true"):
        broken = await limited.post(path.format("hidden.broken"), json={})
        absent = await limited.post(path.format("hidden.nothing"), json={})
        assert (broken.status_code, absent.status_code) == (404, 404)
        assert broken.json()["detail"].replace("broken", "?") == absent.json()["detail"].replace(
            "nothing", "?"
        )


@pytest.mark.parametrize("limits", LIMITS)
async def test_variables_in_the_namespace_of_others_are_not_listed(two, gateway_app, limits):
    limited = await gateway_app.client(*SCOPES, **limits)
    for name in ("hidden_KEY", "mine_KEY", "KEY", "hiddenKEY", "A", "Z"):
        assert (await two.put(f"/variables/{name}", json={"value": "x"})).status_code == 201
    names, cursor = [], ""
    while cursor is not None:
        page = (await limited.get(f"/variables?limit=2{cursor and '&cursor=' + cursor}")).json()
        names += [one["name"] for one in page["items"]]
        cursor = page["next_cursor"]
    assert names == ["A", "KEY", "Z", "hiddenKEY", "mine_KEY"]
    assert len((await two.get("/variables")).json()["items"]) == 6


async def test_an_import_of_another_key_is_visible_to_unlimited_admins_only(two, gateway_app, upstream):
    started = await two.post(
        "/providers?name=hidden2", json=openapi(upstream.url), headers={"Prefer": "respond-async"}
    )
    where = started.headers["location"]
    other = await gateway_app.client("admin")
    for _ in range(400):
        if (await other.get(where)).json()["state"] == "done":
            break
        await asyncio.sleep(0.05)
    for limits in LIMITS:
        limited = await gateway_app.client("admin", **limits)
        assert (await limited.get(where)).status_code == 404

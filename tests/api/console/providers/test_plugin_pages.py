"""The pages of the plugin catalogue."""

from tests.api.console.providers.provider_pages import form_of, submit, text_of

SECRET = "canary-51d2aa80f7"
GITHUB = "/console/plugins/github"


async def test_the_catalogue_is_searched(admin):
    page = await admin.get("/console/plugins?q=slack")
    assert 'href="/console/plugins/slack"' in page.text
    assert 'href="/console/plugins/github"' not in page.text
    assert "No plugin matches" in text_of(await admin.get("/console/plugins?q=nothing-like-it"))


async def test_a_plugin_is_enabled_with_its_credential_and_disabled_with_its_name(admin):
    page = await admin.get(GITHUB)
    form = form_of(page, GITHUB)
    assert form["setting.base_url"] == "https://api.github.com"
    wrong = await submit(admin, GITHUB, {**form, "credential.token": SECRET, "setting.base_url": "ftp://x"})
    assert wrong.status_code == 422
    assert SECRET not in wrong.text
    enabled = await submit(admin, GITHUB, {**form, "credential.token": SECRET})
    assert enabled.status_code == 303, text_of(enabled)
    assert SECRET not in enabled.headers["location"]
    assert (await admin.get("/plugins/github")).json()["state"] == "enabled"
    again = await admin.get(GITHUB)
    assert SECRET not in again.text
    changed = await submit(admin, GITHUB, form_of(again, GITHUB))
    assert changed.status_code == 303, text_of(changed)
    assert (await admin.get("/plugins/github")).json()["credentials"][0]["configured"] is True
    kept = await submit(admin, f"{GITHUB}/disable", {"typed": "git"})
    assert kept.status_code == 422
    assert (await submit(admin, f"{GITHUB}/disable", {"typed": "github"})).status_code == 303
    assert (await admin.get("/plugins/github")).json()["state"] == "off"


async def test_a_key_that_may_not_enable_plugins_gets_no_form(gateway_app):
    reader = await gateway_app.client("providers:read")
    page = await reader.get(GITHUB)
    assert page.status_code == 200
    assert f'action="{GITHUB}"' not in page.text

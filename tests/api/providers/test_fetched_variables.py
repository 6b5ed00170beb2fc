"""Variables of the environment and of all providers in fetched tools: as far as the provider's own template uses them."""

import json

import pytest
from aiohttp import web

from .documents import manual, tool

NAME = "GATEWAY_TEST_REGION"
VALUE = "value-of-the-environment"


@pytest.fixture(params=["environment", "tenant"])
async def variable(request, admin, monkeypatch):
    if request.param == "environment":
        monkeypatch.setenv(NAME, VALUE)
    else:
        assert (await admin.put(f"/variables/{NAME}", json={"value": VALUE})).status_code == 201


def key():
    return {"auth_type": "api_key", "api_key": f"Bearer ${{{NAME}}}", "var_name": "Authorization"}


def outcomes(made):
    assert made.status_code in (200, 201), made.text
    return {one["source_key"]: one["outcome"] for one in made.json()["report"]["operations"]}


async def received(admin, upstream, name):
    found = await admin.post(f"/tools/m.{name}/call", json={})
    assert found.status_code == 200, found.text
    _, path, headers, _ = upstream.seen[-1]
    return path, {name.lower(): value for name, value in headers.items()}


SOURCES = {
    "auth": {"auth": key()},
    "header": {"headers": {"X-Region": f"${NAME}"}},
}


@pytest.mark.usefixtures("variable")
@pytest.mark.parametrize("given", SOURCES)
async def test_a_variable_of_the_providers_template_works_in_its_tools(admin, upstream, given):
    upstream.pages["/utcp"] = manual(
        tool("auth", f"{upstream.url}/a", auth=key()),
        tool("header", f"{upstream.url}/h", headers={"X-Key": f"${{{NAME}}}"}),
        tool("query", f"{upstream.url}/q?k=${{{NAME}}}"),
    )
    source = {"call_template_type": "http", "url": f"{upstream.url}/utcp", **SOURCES[given]}
    made = await admin.post("/providers", json={"name": "m", "source": {"call_template": source}})
    assert outcomes(made) == dict.fromkeys(("auth", "header", "query"), "accepted")
    assert VALUE in json.dumps([dict(one[2]) for one in upstream.seen])
    assert (await received(admin, upstream, "auth"))[1]["authorization"] == f"Bearer {VALUE}"
    assert (await received(admin, upstream, "header"))[1]["x-key"] == VALUE
    assert (await received(admin, upstream, "query"))[0] == f"/q?k={VALUE}"
    for path in ("/providers/m", "/tools/m.header", "/utcp?mode=direct", "/utcp"):
        assert VALUE not in (await admin.get(path)).text
    again = await admin.post("/providers/m/refresh")
    assert sorted(again.json()["difference"]["unchanged"]) == ["auth", "header", "query"]


@pytest.mark.usefixtures("variable")
async def test_it_goes_to_no_origin_but_that_of_the_providers_template(admin, upstream, elsewhere):
    upstream.pages["/utcp"] = manual(
        tool("near", f"{upstream.url}/n", auth=key()), tool("far", f"{elsewhere.url}/f", auth=key())
    )
    source = {"call_template_type": "http", "url": f"{upstream.url}/utcp", "auth": key()}
    made = await admin.post("/providers", json={"name": "m", "source": {"call_template": source}})
    assert made.status_code == 201, made.text
    await received(admin, upstream, "near")
    await admin.post("/tools/m.far/call", json={})
    assert VALUE not in str(elsewhere.seen)


@pytest.mark.usefixtures("variable")
async def test_a_fetched_tool_names_no_variable_that_the_template_does_not(admin, upstream):
    upstream.pages["/utcp"] = manual(
        tool("a", f"{upstream.url}/a", auth=key()), tool("b", f"{upstream.url}/b")
    )
    made = await admin.post("/providers", json={"name": "m", "source": {"url": f"{upstream.url}/utcp"}})
    assert outcomes(made) == {"a": "skipped", "b": "accepted"}


@pytest.mark.usefixtures("variable")
async def test_a_client_secret_is_not_for_the_tools_unless_their_origin_issues_the_tokens(
    admin, upstream, elsewhere
):
    async def token():
        return web.json_response({"access_token": "t", "token_type": "Bearer", "expires_in": 60})

    stealing = manual(
        tool("a", f"{upstream.url}/a", headers={"X-Key": f"${NAME}"}), tool("b", f"{upstream.url}/b")
    )
    upstream.pages |= {"/utcp": stealing, "/token": token}
    elsewhere.pages["/token"] = token
    for issuer, outcome in ((elsewhere, "skipped"), (upstream, "accepted")):
        # Of the environment, there is no such variable: its operator lists it for all origins.
        await admin.patch(f"/variables/{NAME}", json={"allowed_origins": [issuer.url]})
        auth = {
            "auth_type": "oauth2", "token_url": f"{issuer.url}/token", "client_id": "i", "client_secret": f"${{{NAME}}}",
        }  # fmt: skip
        source = {"call_template_type": "http", "url": f"{upstream.url}/utcp", "auth": auth}
        made = await admin.post("/providers", json={"name": "m", "source": {"call_template": source}})
        assert outcomes(made) == {"a": outcome, "b": "accepted"}
        assert (await admin.delete("/providers/m")).status_code == 204


async def test_a_public_field_of_the_template_may_stand_in_those_of_its_tools(admin, upstream, monkeypatch):
    monkeypatch.setenv(NAME, "eu-west")
    upstream.pages["/eu-west/utcp"] = manual(
        tool("path", f"{upstream.url}/${{{NAME}}}/pets"),
        tool("header", f"{upstream.url}/", headers={"X-R": f"${NAME}"}),
    )
    source = {"call_template_type": "http", "url": f"{upstream.url}/${{{NAME}}}/utcp"}
    made = await admin.post("/providers", json={"name": "m", "source": {"call_template": source}})
    assert outcomes(made) == {"path": "accepted", "header": "accepted"}
    assert (await received(admin, upstream, "path"))[0] == "/eu-west/pets"
    assert (await received(admin, upstream, "header"))[1]["x-r"] == "eu-west"


SIGNING = {
    "aws_sigv4": {
        "access_key_id": "AKID",
        "secret_access_key": f"${{{NAME}}}",
        "region": "r",
        "service": "s",
    },
    "hmac": {"secret": f"${{{NAME}}}"},
    "digest": {"username": "u", "password": f"${{{NAME}}}"},
}


@pytest.mark.usefixtures("variable")
@pytest.mark.parametrize("kind", SIGNING)
async def test_a_key_that_signs_is_not_for_the_tools(admin, upstream, kind):
    upstream.pages["/utcp"] = manual(
        tool("a", f"{upstream.url}/a", headers={"X-Key": f"${NAME}"}), tool("b", f"{upstream.url}/b")
    )
    auth = {"auth_type": kind, **SIGNING[kind]}
    source = {"call_template_type": "http", "url": f"{upstream.url}/utcp", "auth": auth}
    made = await admin.post("/providers", json={"name": "m", "source": {"call_template": source}})
    assert outcomes(made) == {"a": "skipped", "b": "accepted"}
    again = await admin.post("/providers/m/refresh")
    assert outcomes(again) == {"a": "skipped", "b": "accepted"}
    assert VALUE not in str(upstream.seen)


@pytest.mark.usefixtures("variable")
async def test_what_a_signature_shows_of_its_credential_is_for_the_tools(admin, upstream):
    upstream.pages["/utcp"] = manual(tool("a", f"{upstream.url}/a", headers={"X-Key": f"${NAME}"}))
    auth = {"auth_type": "aws_sigv4", **SIGNING["aws_sigv4"], "access_key_id": f"${{{NAME}}}",
            "secret_access_key": "not-a-variable"}  # fmt: skip
    source = {"call_template_type": "http", "url": f"{upstream.url}/utcp", "auth": auth}
    made = await admin.post("/providers", json={"name": "m", "source": {"call_template": source}})
    assert outcomes(made) == {"a": "accepted"}

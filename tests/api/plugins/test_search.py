"""`GET /plugins` finds plugins by words, and a search for tools names those that are off and fit better."""

import pytest

from app.security.principal import Principal
from app.storage.models import TENANT
from tests.api.plugins.conftest import CANARY

PRINCIPAL = Principal(key_id="k", name="k", tenant_id=TENANT, scopes=frozenset({"admin"}))


async def names(client, **params) -> list[str]:
    response = await client.get("/plugins", params=params)
    assert response.status_code == 200, response.text
    return [one["name"] for one in response.json()["items"]]


async def test_the_catalogue_is_a_list_in_pages(api, admin) -> None:
    everything = await names(admin, limit=200)
    assert everything == sorted(everything)
    assert {"filesystem", "github", "brave-search", "postgres"} <= set(everything)
    assert await names(admin, sort="-name", limit=200) == everything[::-1]
    first = await admin.get("/plugins", params={"limit": 2})
    assert 'rel="next"' in first.headers["link"]
    second = await admin.get("/plugins", params={"limit": 2, "cursor": first.json()["next_cursor"]})
    assert [one["name"] for one in second.json()["items"]] == everything[2:4]
    assert first.json()["total"] == len(everything)


@pytest.mark.parametrize(
    ("q", "name"),
    [
        ("sql database", "postgres"),
        ("WEB search", "brave-search"),
        ("execute_query", "postgres"),
        ("write file", "filesystem"),
    ],
)
async def test_it_is_searched_by_words(admin, q, name) -> None:
    assert name in await names(admin, q=q)


async def test_states(admin, workspace) -> None:
    assert await names(admin, state="enabled") == []
    await admin.put("/plugins/filesystem", json={"settings": {"root": str(workspace)}})
    assert await names(admin, state="enabled") == ["filesystem"]
    assert "filesystem" not in await names(admin, state="off", limit=200)


async def test_a_restricted_key_does_not_learn_what_others_have_enabled(api, admin) -> None:
    await admin.put("/plugins/github", json={"credentials": {"token": CANARY}})
    limited = await api.client("providers:read", providers=["other"])
    assert await names(limited, state="enabled") == []
    shown = (await limited.get("/plugins/github")).json()
    assert (shown["state"], shown["enabled_version"], shown["credentials"][0]["configured"]) == (
        "off",
        None,
        False,
    )
    member = await api.client("providers:read", providers=["github"])
    assert await names(member, state="enabled") == ["github"]


async def suggested(client, q: str) -> list[str]:
    response = await client.get("/tools/search", params={"q": q})
    assert response.status_code == 200
    return [one["name"] for one in response.json().get("plugins", [])]


@pytest.mark.parametrize(
    ("q", "name"),
    [
        ("search the web", "brave-search"), ("run a SQL query on our database", "postgres"),
        ("get the contents of a file from a GitHub repository", "github"), ("write a file", "filesystem"),
    ],
)  # fmt: skip
async def test_an_empty_search_names_plugins(admin, q, name) -> None:
    found = await suggested(admin, q)
    assert found[0] == name
    assert len(found) <= 3


async def test_a_plugin_that_is_on_is_a_tool_and_no_suggestion(admin, workspace) -> None:
    await admin.put("/plugins/filesystem", json={"settings": {"root": str(workspace)}})
    response = (await admin.get("/tools/search", params={"q": "write content to a file"})).json()
    assert response["items"][0]["name"] == "filesystem.write_file"
    assert "filesystem" not in [one["name"] for one in response.get("plugins", [])]


async def test_a_search_that_finds_what_it_seeks_names_none(api, admin) -> None:
    provider = await api.provider("crawler")
    template = {"url": "https://crawler.example.com/search"}
    await api.tool(provider, "search_web", template, description="Search the web.", inputs={"type": "object"})
    response = (await admin.get("/tools/search", params={"q": "search the web"})).json()
    assert response["items"][0]["name"] == "crawler.search_web"
    assert "plugins" not in response
    # A weak match is no reason to be silent.
    assert "postgres" in await suggested(admin, "execute SQL on a database of the web")
    assert await suggested(admin, "") == []
    assert await suggested(admin, "zzzz qqqq") == []


async def test_keys_that_may_not_read_providers_see_no_plugin(api) -> None:
    agent = await api.client("tools:read", "tools:call")
    response = await agent.get("/tools/search", params={"q": "search the web"})
    nothing = {"items": [], "ranking": "words", "weak": True}
    nothing["suggestions"] = {
        "unknown_words": ["search", "web"], "did_you_mean": [], "providers": [], "words": []
    }  # fmt: skip
    assert response.json() == nothing
    assert (await agent.get("/plugins")).status_code == 403
    limited = await api.client("tools:read", "providers:read", providers=["crawler"])
    assert (await limited.get("/tools/search", params={"q": "search the web"})).json() == nothing


async def test_lists_of_names_skip_unknown_ones_with_a_warning(api, admin, workspace) -> None:
    await admin.put("/plugins/filesystem", json={"settings": {"root": str(workspace)}})
    given = ["filesystem", "unknown", "github", "filesystem"]
    found, warnings = await api.services.plugins.resolve_names(given, principal=PRINCIPAL)
    assert found == ["filesystem"]
    assert warnings == ["Plugin 'unknown' not found in registry", "Plugin 'github' is not enabled"]
    # The same names as members of a toolset.
    made = await admin.put("/toolsets/all", json={"definition": {"providers": ["filesystem", "unknown"]}})
    assert made.json()["tools"] == 2
    assert [(one["kind"], one["name"]) for one in made.json()["problems"]] == [("provider", "unknown")]


async def test_a_secret_is_in_no_list(admin, vendor) -> None:
    await admin.put(
        "/plugins/github", json={"settings": {"base_url": vendor.url}, "credentials": {"token": CANARY}}
    )
    shown = [(await admin.get(path)).text for path in ("/plugins", "/plugins/github", "/tools/search?q=file")]
    assert CANARY not in "".join(shown)

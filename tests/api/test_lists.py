"""Lists over HTTP: order, search, states, totals, cursors and links; and query parameters that nobody declared."""

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from app.access.events import record_event
from app.access.repository import KeyDescription, issue_key
from app.security.principal import Grant
from app.storage.models import CallRecord, Revision, Tool, Variable
from tests.harness.application import Application, run_application
from tests.harness.cases import for_each
from tests.harness.contract import CONTRACT
from tests.stored import clear, store_provider, store_tool

NOW = datetime.now(UTC)
# FastAPI recommends the server's own root path; this server is one of the test.
pytestmark = pytest.mark.filterwarnings("ignore:The `root_path` parameter is deprecated")


@pytest.fixture(scope="module")
async def served(applications):
    return await applications.get(
        root_path="/gateway",
        cors_origins=("https://app.example",),
    )


@pytest.fixture
async def application(served: Application):
    await clear(served.services.database)
    yield served
    await served.close_clients()


@pytest.fixture
async def admin(application):
    return await application.client("admin")


async def walk(client, path, **query):
    """Return the items of all pages of a list, two in each, by following the links."""
    items, url, totals = [], path, set()
    response = await client.get(url, params={"limit": 2, **query})
    while True:
        assert response.status_code == 200, response.text
        page = response.json()
        items += page["items"]
        totals.add(page["total"])
        links = dict(re.findall(r'<([^>]*)>; rel="(\w+)"', response.headers["link"]))
        following = {relation: target for target, relation in links.items()}
        assert parse_qs(urlsplit(following["first"]).query).keys() == {"limit", *query}
        assert ("next" in following) == (page["next_cursor"] is not None)
        if "next" not in following:
            break
        assert following["next"].startswith("/gateway" + path)
        response = await client.get(following["next"].removeprefix("/gateway"))
    assert len(totals) == 1
    return items, totals.pop()


@pytest.fixture
async def stored_providers(application):
    return await providers(application)


async def providers(application):
    database = application.services.database
    rows = [("beta", "Weather 100%", False), ("alpha", "Books", True), ("delta", "Books_2", True)]
    stored = []
    for number, (name, title, enabled) in enumerate(rows):
        moment = NOW + timedelta(seconds=number)
        fields = {"title": title, "enabled": enabled, "created_at": moment, "updated_at": moment}
        stored.append(await store_provider(database, name, **fields))
    async with database.transaction() as session:
        session.add(Revision(provider_id=stored[2].id, state="pending"))
    return stored


def names(items):
    return [one["name"] for one in items]


@for_each(
    ("query", "expected"),
    [
        ({}, ["alpha", "beta", "delta"]),
        ({"sort": "-name"}, ["delta", "beta", "alpha"]),
        ({"sort": "created_at"}, ["beta", "alpha", "delta"]),
        ({"sort": "-updated_at"}, ["delta", "alpha", "beta"]),
        ({"q": "BOOKS"}, ["alpha", "delta"]),
        ({"q": "0%"}, ["beta"]),
        ({"q": "s_"}, ["delta"]),
        ({"q": "\\"}, []),
        ({"state": "enabled"}, ["alpha", "delta"]),
        ({"state": "disabled"}, ["beta"]),
        ({"state": "pending"}, ["delta"]),
        ({"state": "enabled", "q": "2", "sort": "-name"}, ["delta"]),
    ],
)
async def test_providers_are_sorted_searched_and_counted(admin, stored_providers, query, expected):
    items, total = await walk(admin, "/providers", **query)
    assert names(items) == expected
    assert total == len(expected)


@pytest.fixture
async def stored_tools(application):
    """Tools of the provider `p`."""
    database = application.services.database
    provider = await store_provider(database, "p")
    rows = {
        "a": {"description": "Rowing", "override": {"description": "Sailing"}},
        "b": {"override": {"enabled": False}},
        "c": {"deprecated": True},
        "d": {"description": "Rowing", "slimmed": {"description": "slim Sailing", "steps": []}},
    }
    for number, (name, fields) in enumerate(rows.items()):
        # Two of equal times: the id decides.
        moment = NOW + timedelta(seconds=number // 2)
        await store_tool(database, provider, name, created_at=moment, updated_at=moment, **fields)


@for_each(
    ("query", "expected"),
    [
        ({}, ["p.a", "p.b", "p.c", "p.d"]),
        ({"sort": "-created_at"}, ["p.d", "p.c", "p.b", "p.a"]),
        ({"sort": "updated_at"}, ["p.a", "p.b", "p.c", "p.d"]),
        ({"state": "disabled"}, ["p.b"]),
        ({"state": "enabled"}, ["p.a", "p.c", "p.d"]),
        ({"state": "deprecated"}, ["p.c"]),
        ({"q": "sailing"}, ["p.a", "p.d"]),
        ({"q": "P.B"}, ["p.b"]),
        # What a person wrote in the place of the source's text is what is searched.
        ({"q": "rowing"}, []),
        ({"q": "slim"}, ["p.d"]),
        ({"q": "sailing", "enabled": "true"}, ["p.a", "p.d"]),
    ],
)
async def test_tools_are_sorted_searched_and_counted(admin, stored_tools, query, expected):
    items, total = await walk(admin, "/tools", **query)
    assert names(items) == expected
    assert total == len(expected)


@pytest.fixture
async def stored_keys(application):
    """Keys of each state."""
    services = application.services
    rows = {
        "old": {"expires_at": NOW - timedelta(days=1), "last_used_at": NOW - timedelta(days=2)},
        "soon": {"expires_at": NOW + timedelta(days=1), "last_used_at": NOW - timedelta(days=1)},
        "weak": {},
        "gone": {"revoked_at": NOW},
    }
    async with services.database.transaction() as session:
        for name, fields in rows.items():
            grant = Grant(scopes=frozenset({"tools:read"}))
            _, row = await issue_key(session, services.vault, KeyDescription(name), grant=grant, actor="test")
            for field, value in fields.items():
                setattr(row, field, value)
            session.add(row)


@for_each(
    ("query", "expected"),
    [
        ({"sort": "name"}, ["old", "soon", "test", "weak"]),
        ({"sort": "created_at"}, ["test", "old", "soon", "weak"]),
        ({"sort": "-last_used_at"}, ["soon", "old", "weak", "test"]),
        ({"sort": "expires_at"}, ["test", "weak", "old", "soon"]),
        ({"sort": "name", "state": "active"}, ["soon", "test", "weak"]),
        ({"sort": "name", "state": "expired"}, ["old"]),
        ({"state": "revoked"}, ["gone"]),
        ({"sort": "name", "include_revoked": "true"}, ["gone", "old", "soon", "test", "weak"]),
        ({"q": "EA"}, ["weak"]),
    ],
)
async def test_keys_are_sorted_searched_and_counted(admin, stored_keys, query, expected):
    items, total = await walk(admin, "/keys", **query)
    if "last_used" in query.get("sort", ""):
        # That of the request itself may have been stored meanwhile.
        items.sort(key=lambda one: one["name"] == "test")
    assert names(items) == expected
    assert total == len(expected)


async def test_variables_are_searched_by_name_and_never_by_value(application, admin):
    database = application.services.database
    provider = await store_provider(database, "p")
    async with database.transaction() as session:
        for owner in (None, provider.id):
            for number, name in enumerate(("REGION", "CITY", "ZONE")):
                moment = NOW + timedelta(seconds=number)
                row = Variable(provider_id=owner, name=name, secret=False, value="CANARY", updated_at=moment)
                session.add(row)
    for path in ("/variables", "/providers/p/variables"):
        assert names((await walk(admin, path))[0]) == ["CITY", "REGION", "ZONE"]
        assert names((await walk(admin, path, sort="-updated_at"))[0]) == ["ZONE", "CITY", "REGION"]
        assert names((await walk(admin, path, q="one"))[0]) == ["ZONE"]
        assert await walk(admin, path, q="canary") == ([], 0)


async def test_events_are_sorted_and_searched(application, admin):
    async with application.services.database.transaction() as session:
        for name in ("one", "two", "three"):
            await record_event(session, actor="x", action="created", object_type="thing", object_name=name)
    query = {"object_type": "thing"}
    items, total = await walk(admin, "/events", **query)
    assert ([one["object_name"] for one in items], total) == (["three", "two", "one"], 3)
    items, _ = await walk(admin, "/events", sort="at", **query)
    assert [one["object_name"] for one in items] == ["one", "two", "three"]
    items, total = await walk(admin, "/events", q="Thre")
    assert ([one["object_name"] for one in items], total) == (["three"], 1)


async def test_calls_are_counted_only_where_that_is_asked_for(application, admin):
    await store_calls(application.services.database, ["p.one", "p.two", "p.three"])
    assert (await walk(admin, "/calls"))[1] is None
    items, total = await walk(admin, "/calls", total="true", sort="at")
    assert ([one["tool"] for one in items], total) == (["p.one", "p.two", "p.three"], 3)
    items, total = await walk(admin, "/calls", total="true", q="T")
    assert ([one["tool"] for one in items], total) == (["p.three", "p.two"], 2)


async def store_calls(database, tools):
    async with database.transaction() as session:
        for tool in tools:
            session.add(
                CallRecord(key_id="k", provider="p", tool=tool, outcome="ok", status=200, duration_ms=1.0)
            )
            await session.flush()


async def test_pages_hold_only_what_the_key_may_see(application):
    database = application.services.database
    for name in ("mine", "other"):
        provider = await store_provider(database, name, title="Same title")
        await store_tool(database, provider, "tool", description="same words")
        async with database.transaction() as session:
            session.add(
                CallRecord(
                    key_id="k", provider=name, tool=f"{name}.tool", outcome="ok", status=200, duration_ms=1.0
                )
            )
    limited = await application.client("admin", providers=["mine"])
    for path, query in (
        ("/providers", {}),
        ("/providers", {"q": "same"}),
        ("/tools", {"q": "same"}),
        ("/tools", {"sort": "-updated_at"}),
        ("/calls", {"total": "true", "q": "tool"}),
    ):
        response = await limited.get(path, params={"limit": 1, **query})
        assert response.json()["total"] == 1
        assert "other" not in response.text + str(response.headers)
        assert response.json()["next_cursor"] is None
    events = (await limited.get("/events")).json()
    assert events["total"] == len(events["items"])
    assert (await limited.get("/events", params={"actor": "other"})).json()["total"] == 0


@pytest.mark.long
async def test_more_than_10_000_items_are_at_least_10_000(application, admin):
    database = application.services.database
    provider = await store_provider(database, "many")
    async with database.transaction() as session:
        session.add_all(
            Tool(
                provider_id=provider.id,
                source_key=f"t{number:05}",
                name=f"many.t{number:05}",
                alias=f"many_t{number:05}",
                deprecated=number < 10_000,
            )
            for number in range(10_001)
        )
    page = (await admin.get("/tools", params={"limit": 1})).json()
    assert (page["total"], page["total_at_least"]) == (None, 10_000)
    page = (await admin.get("/tools", params={"limit": 1, "state": "deprecated"})).json()
    assert (page["total"], page["total_at_least"]) == (10_000, None)
    page = (await admin.get("/tools", params={"limit": 1, "q": "T0000"})).json()
    assert (page["total"], page["total_at_least"]) == (10, None)


@pytest.mark.parametrize("query", [{"sort": "-name"}, {"q": "a"}, {"state": "enabled"}])
async def test_a_cursor_belongs_to_one_order_and_one_filter(application, admin, query):
    await providers(application)
    cursor = (await admin.get("/providers", params={"limit": 1})).json()["next_cursor"]
    problem = (await admin.get("/providers", params={"cursor": cursor, **query})).json()
    assert (problem["status"], problem["errors"][0]["pointer"]) == (422, "#/query/cursor")
    assert (await admin.get("/providers", params={"cursor": cursor, "limit": 200})).status_code == 200


@for_each(
    "path",
    [
        "/providers",
        "/tools",
        "/toolsets",
        "/plugins",
        "/recordings",
        "/search/synonyms",
        "/search/pins",
        "/keys",
        "/variables",
        "/events",
        "/executors",
        "/calls",
        "/search/usage/queries",
    ],
)
@for_each("cursor", ["AAAA", "W10", "bnVsbA", "019a0000-0000-7000-8000-000000000001"])
async def test_text_that_is_no_cursor_is_rejected(admin, path, cursor):
    problem = (await admin.get(path, params={"cursor": cursor})).json()
    assert (problem["status"], problem["errors"][0]["pointer"]) == (422, "#/query/cursor")


async def test_links_begin_with_the_public_url(application, database_url, redis_url):
    settings = application.services.settings
    changed = settings.model_copy(update={"public_base_url": "https://tools.example/api", "root_path": ""})
    async with run_application(changed) as behind:
        await providers(behind)
        client = await behind.client("admin")
        link = (await client.get("/providers", params={"limit": 1, "q": "a b&c"})).headers["link"]
        assert link == '<https://tools.example/api/providers?limit=1&q=a+b%26c>; rel="first"'
        link = (await client.get("/providers", params={"limit": 1})).headers["link"]
        assert link.startswith("<https://tools.example/api/providers?limit=1&cursor=")


@for_each("name", ["Link", "X-Argument-Repairs", "X-Continuation", "X-Pages", "X-Result-Notes"])
async def test_scripts_of_allowed_origins_may_read_headers(admin, name):
    response = await admin.get("/tools", headers={"Origin": "https://app.example"})
    assert name in response.headers["access-control-expose-headers"].split(", ")


@for_each(
    ("path", "pointer", "detail"),
    [
        ("/providers?page=2", "#/query/page", "`cursor`"),
        ("/tools?offset=2", "#/query/offset", "no page numbers"),
        ("/keys?per_page=5", "#/query/per_page", "`limit`"),
        ("/tools?provder=x", "#/query/provder", "`provider`"),
        ("/events?objecttype=x", "#/query/objecttype", "`object_type`"),
        ("/calls?order=at", "#/query/order", "`sort`"),
        ("/executors?provider=x", "#/query/provider", "This parameter is unknown."),
        ("/executors?search=x", "#/query/search", "`q`"),
        ("/utcp?vesion=1", "#/query/vesion", "`version`"),
        ("/export?x=1", "#/query/x", "This parameter is unknown."),
        ("/tools?limit=1&limit=2", "#/query/limit", "once"),
        ("/tools?a%2Fb=1", "#/query/a~1b", "This parameter is unknown."),
    ],
)
async def test_unknown_and_repeated_parameters_are_rejected(admin, path, pointer, detail):
    problem = (await admin.get(path)).json()
    assert problem["status"] == 422
    (error,) = problem["errors"]
    assert error["pointer"] == pointer
    assert detail in error["detail"]


async def test_unknown_parameters_are_rejected_before_anything_is_written(admin):
    response = await admin.put("/variables/NAME?dryrun=true", json={"value": "x", "secret": False})
    assert response.status_code == 422
    assert (await admin.get("/variables")).json()["items"] == []


async def test_nobody_learns_of_parameters_without_a_key(application):
    stranger = await application.client("tools:read")
    assert (await stranger.get("/keys?page=1")).status_code == 403
    stranger.headers["Authorization"] = "Bearer nothing"
    response = await stranger.get("/keys?page=1")
    assert response.status_code == 401
    assert "cursor" not in response.text


@pytest.mark.parametrize("path", ["/health/live?x=1", "/health/ready?x=1", "/metrics?x=1", "/docs?x=1"])
async def test_probes_and_pages_may_be_requested_with_any_parameter(admin, path):
    assert (await admin.get(path)).status_code == 200


def test_every_list_of_the_contract_is_a_page():
    """Each operation that responds with `next_cursor` has the parameters, the totals and the header of all lists."""
    schemas = CONTRACT["components"]["schemas"]
    paths = {}
    unpaged = set()
    for path, item in CONTRACT["paths"].items():
        for method, operation in item.items():
            content = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            members = schemas.get(name, {}).get("properties", {})
            if "items" in members and "next_cursor" not in members:
                unpaged.add(operation["operationId"])
            if method != "get" or "next_cursor" not in members:
                continue
            paths[path] = operation
            assert {"items", "next_cursor", "total", "total_at_least"} <= members.keys(), path
            parameters = {one["name"]: one for one in operation["parameters"] if one["in"] == "query"}
            assert {"limit", "cursor", "sort", "q"} <= parameters.keys(), path
            orders = parameters["sort"]["schema"]["enum"]
            assert parameters["sort"]["schema"]["default"] in orders
            assert {one.removeprefix("-") for one in orders} == {one for one in orders if one[0] != "-"}
            assert len(orders) == 2 * len({one.removeprefix("-") for one in orders})
            assert "Link" in operation["responses"]["200"]["headers"], path
    assert {
        "/providers", "/tools", "/keys", "/variables", "/providers/{name}/variables", "/events", "/calls", "/executors",
    } <= paths.keys()  # fmt: skip
    for path in ("/providers", "/tools", "/keys", "/executors"):
        assert any(one["name"] == "state" for one in paths[path]["parameters"])
    # The best matches, what one provider has of, and a part of one result: all of these are bounded.
    assert unpaged == {
        "readContinuation",
        "searchTools",
        "searchToolset",
        "listCredentials",
        "listProblemTypes",
        "listScopes",
        "getSettings",
        "updateTools",
    }

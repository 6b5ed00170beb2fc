"""What the registry says of tools whose executor is away: `available`, /explain, and the provider's health."""

import pytest

from tests.api.agents.ubp.conftest import defined, executor_of, until

NAMES = ("count_stock", "move_stock")


@pytest.fixture(scope="module")
async def admin(pair):
    """A client of the second gateway; the executors connect to the first one."""
    return await pair[1].client("admin")


async def _available(client, name, path="/tools"):
    found = (await client.get(path, params={"q": name})).json()["items"]
    return {one["name"]: one["available"] for one in found}[name]


async def _is_away(client, name):
    return await _available(client, name) is False


async def everywhere(client, name):
    """What each response that has the tool says of it."""
    tool = (await client.get(f"/tools/{name}")).json()
    return {
        tool["available"],
        await _available(client, name),
        await _available(client, name, "/tools/search"),
        {one["name"]: one["available"] for one in (await client.get("/tools/search")).json()["items"]}[name],
        await _available(client, name.replace(".", "_"), "/toolsets/stock/search"),
    }


@pytest.fixture(scope="module")
async def toolset(pair, admin):
    body = {"name": "stock", "definition": {"providers": ["stock"]}}
    response = await admin.post("/toolsets", json=body)
    assert response.status_code == 201, response.text


async def explained(client, name):
    checks = (await client.get("/explain", params={"tool": name})).json()
    return checks["may_call"], {one["exact_check"]: one for one in checks["checks"]}.get("executor-connected")


async def health_of(client, name):
    (found,) = (await client.get("/provider-health", params={"provider": name})).json()["items"]
    return found["state"], found["available"]


async def is_away(client, name):
    return (await health_of(client, name))[1] is False


async def test_a_tool_is_available_while_an_executor_of_any_worker_has_its_command(pair, admin, toolset):
    name = "stock.count_stock"
    async with executor_of(pair[0]) as executor:
        await executor.register("stock", *map(defined, NAMES))
        await until(lambda: _available(admin, name))
        assert await everywhere(admin, name) == {True}
        assert (await explained(admin, name))[0] is True
        assert (await explained(admin, name))[1]["passed"] is True
        assert await health_of(admin, "stock") == ("unknown", True)
        checked = (await admin.post("/providers/stock/check")).json()
        assert (checked["status"], checked["origins"][0]["steps"][0]["step"]) == ("ok", "connection")
    await until(lambda: is_away(admin, "stock"))
    assert await everywhere(admin, name) == {False}
    assert await health_of(admin, "stock") == ("failed", False)


async def test_explain_says_since_when_an_executor_is_away(pair, admin):
    async with executor_of(pair[1]) as executor:
        await executor.register("leaving", defined("leave"))
        await until(lambda: _available(admin, "leaving.leave"))
    await until(lambda: is_away(admin, "leaving"))
    may_call, check = await explained(admin, "leaving.leave")
    problem = (await admin.post("/tools/leaving.leave/call", json={})).json()
    assert (may_call, check["passed"], check["required"]) == (False, False, True)
    assert check["detail"] == problem["detail"]
    assert problem["away_since"] in check["detail"]
    assert check["hint"]


async def test_a_check_of_the_provider_says_since_when_its_executor_is_away(pair, admin):
    async with executor_of(pair[1]) as executor:
        await executor.register("resting", defined("rest"))
        await until(lambda: _available(admin, "resting.rest"))
    await until(lambda: is_away(admin, "resting"))
    checked = (await admin.post("/providers/resting/check")).json()
    ((origin,), (hint,)) = checked["origins"], checked["hints"]
    assert (checked["status"], origin["status"], origin["origin"]) == ("failed", "failed", "ubp://resting")
    (step,) = origin["steps"]
    assert (step["step"], step["problem"]) == ("connection", "upstream-unreachable")
    assert "The last one has disconnected at 2" in step["detail"]
    assert step["detail"] in hint


async def test_providers_whose_executor_is_away_are_found_by_their_state(pair, admin):
    async with executor_of(pair[1]) as executor:
        await executor.register("gone", defined("go"))
    await until(lambda: is_away(admin, "gone"))
    async with executor_of(pair[1]) as executor:
        await executor.register("here", defined("stay"))
        await until(lambda: _available(admin, "here.stay"))
        found = (await admin.get("/provider-health", params={"state": "away"})).json()["items"]
        names = {one["name"] for one in found}
        assert "gone" in names
        assert "here" not in names


async def test_a_command_that_is_taken_away_is_away_and_the_others_stay(pair, admin):
    async with executor_of(pair[0]) as first, executor_of(pair[1]) as second:
        await first.register("depot", defined("open"), defined("close"))
        await second.register("depot", defined("open"))
        await until(lambda: _available(admin, "depot.close"))
        await first.request("agent.deregister_tools")
        await until(lambda: _is_away(admin, "depot.close"))
        assert await _available(admin, "depot.open") is True
        assert await health_of(admin, "depot") == ("unknown", True)


async def test_availability_is_null_for_tools_that_no_executor_executes(pair, admin):
    template = {"call_template_type": "text", "content": "hello"}
    manual = {"tools": [{"name": "hello", "description": "Say hello.", "tool_call_template": template}]}
    response = await admin.post(
        "/providers", params={"name": "plain"}, json={"utcp_version": "1.0.1", **manual}
    )
    assert response.status_code == 201, response.text
    found = (await admin.get("/tools/plain.hello")).json()
    assert found["available"] is None
    assert await _available(admin, "plain.hello") is None
    assert await _available(admin, "plain.hello", "/tools/search") is None
    assert (await explained(admin, "plain.hello"))[1] is None
    assert (await health_of(admin, "plain"))[1] is None


async def test_what_models_are_told_of_a_tool_does_not_depend_on_its_executor(pair, admin):
    async def told():
        return (await admin.get("/utcp", params={"provider": "calm"})).content, (
            await admin.get("/tools/export", params={"format": "openai-chat", "provider": "calm"})
        ).content

    async with executor_of(pair[1]) as executor:
        await executor.register("calm", defined("wait"))
        await until(lambda: _available(admin, "calm.wait"))
        before = await told()
    await until(lambda: is_away(admin, "calm"))
    assert await told() == before

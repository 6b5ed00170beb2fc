"""Tests with several cases and repetitions, their limits, their forms, and what goes on in the background."""

import asyncio
import threading
from dataclasses import replace
from xml.etree import ElementTree as ET

from sqlalchemy import select

from app.agents.tests.definition import AgentTestRequest
from app.agents.tests.runs import AgentTestRuns, TestHeaders, open_runs
from app.security.principal import Principal
from app.storage.models import TENANT, AgentTestRow
from tests.harness.cases import for_each
from tests.harness.model_peers import Turn

READ = ("read_file", {"path": "notes.txt"})
ADMIN = Principal("k", "k", TENANT, frozenset({"admin"}))
SLOW = ("read_file", {"path": "slow"})
HELLO = {"type": "contains", "value": "Hello"}


async def until(is_so):
    """Wait until a condition is true, for at most a minute."""
    for _ in range(3_000):
        if await is_so():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("not within a minute")


async def until_ended(client, path):
    """Return a test once it has ended."""

    async def has_ended():
        return (await client.get(path)).json()["state"] != "running"

    await until(has_ended)
    return (await client.get(path)).json()


async def until_asked(models):
    """Wait until a model has been asked."""

    async def is_asked():
        return bool(models.requests)

    await until(is_asked)


async def test_a_case_is_repeated_and_passes_by_its_pass_rate(run, models) -> None:
    models.turns = [Turn("Hello."), Turn("Goodbye."), Turn("Hello."), Turn("Hello.")]
    result = await run("gpt-4o", assertions=[HELLO], repeat=4, pass_rate=0.75)
    assert (result["passed"], result["passRate"], result["repeat"]) == (True, 0.75, 4)
    assert result["score"] == 0.75
    assert sorted(one["passed"] for one in result["repetitions"]) == [False, True, True, True]
    # What is shown is what has failed.
    assert result["response"] == "Goodbye."
    assert result["usage"] == {"inputTokens": 40, "outputTokens": 20}


async def test_without_a_pass_rate_all_repetitions_must_pass(run, models) -> None:
    models.turns = [Turn("Hello."), Turn("Goodbye.")]
    result = await run("gpt-4o", assertions=[HELLO], repeat=2)
    assert (result["passed"], result["passRate"]) == (False, 0.5)


async def test_a_minimum_score_decides_by_weights(run, models) -> None:
    models.turns = [Turn("Hello.")]
    assertions = [{**HELLO, "weight": 3}, {"type": "contains", "value": "Goodbye"}]
    result = await run("gpt-4o", assertions=assertions, min_score=0.7)
    assert (result["passed"], result["score"], result["assertionsPassed"]) == (True, 0.75, 1)


async def test_costs_are_computed_by_the_prices_of_the_request(client, models) -> None:
    models.turns = [Turn("Hello.")]
    body = {
        "input": "Hi", "models": ["gpt-4o", "claude-x"], "currency": "EUR",
        "prices": {"gpt-4o": {"input": 2.5, "output": 10}},
    }  # fmt: skip
    got = (await client.post("/agent-tests", json=body)).json()
    assert [one["usage"] for one in got["results"]] == [
        {"inputTokens": 10, "outputTokens": 5, "cost": 0.000075, "currency": "EUR"},
        {"inputTokens": 10, "outputTokens": 5},
    ]
    assert got["summary"] == {
        "results": 2, "passed": 2, "failed": 0, "errors": 0, "calls": 0, "input_tokens": 20,
        "output_tokens": 10, "cost": 0.000075, "currency": "EUR",
    }  # fmt: skip


async def test_what_a_case_says_precedes_what_is_said_for_all(client, models) -> None:
    models.turns = [Turn("Hello.")]
    body = {
        "models": ["gpt-4o"], "prompt": "all", "max_tokens": 10,
        "cases": [
            {"name": "own", "input": "1", "prompt": "own", "models": ["claude-x"]},
            {"name": "shared", "input": "2"},
        ],
    }  # fmt: skip
    got = (await client.post("/agent-tests", json=body)).json()
    assert [one["model"] for one in got["results"]] == ["claude-x", "gpt-4o"]
    prompts = {
        body["model"]: body.get("system") or body["messages"][0]["content"] for body in models.requests
    }
    assert prompts == {"claude-x": "own", "gpt-4o": "all"}
    assert {body["max_tokens"] for body in models.requests} == {10}


@for_each(
    ("body", "pointer"),
    [
        ({"models": ["gpt-4o"]}, ""),
        ({"input": "Hi"}, "/models"),
        ({"input": "Hi", "models": []}, "/models"),
        ({"input": "Hi", "models": ["gpt-4o", "gpt-4o"]}, "/models/0"),
        ({"input": "Hi", "models": ["gpt-4o"], "repeats": 2}, "/repeats"),
        ({"input": "Hi", "models": ["gpt-4o"], "repeat": 0}, "/repeat"),
        ({"input": "Hi", "models": ["gpt-4o"], "max_iterations": 51}, "/max_iterations"),
        ({"input": "Hi", "models": ["gpt-4o"], "assertions": [{"type": "is"}]}, "/assertions/0"),
        (
            {"input": "Hi", "models": ["gpt-4o"], "assertions": [{"type": "regex", "pattern": "(?=a)"}]},
            "/assertions/0/pattern",
        ),
        (
            {"input": "Hi", "models": ["gpt-4o"], "assertions": [{"type": "call_count"}]},
            "/assertions/0",
        ),
        (
            {"models": ["gpt-4o"], "cases": [{"name": "a", "input": "1"}, {"name": "a", "input": "2"}]},
            "",
        ),
        (
            {"models": ["gpt-4o"], "cases": [{"name": "a", "input": "1", "models": ["x"]}]},
            "/cases/0/models/0",
        ),
        ({"input": "Hi", "models": [{"model": "m", "base_url": "http://127.0.0.1"}]}, "/models/0/dialect"),
        ({"input": "Hi", "models": [{"model": "gpt-4o", "options": {"tools": []}}]}, "/models/0/options"),
    ],
)
async def test_what_is_wrong_with_a_test_has_a_pointer(client, body, pointer) -> None:
    response = await client.post("/agent-tests", json=body)
    assert response.status_code == 422, response.text
    assert pointer in [one["pointer"] for one in response.json()["errors"]]


async def test_a_test_with_too_many_conversations_is_rejected(client, models) -> None:
    body = {"input": "Hi", "models": ["gpt-4o", "claude-x"], "repeat": 7}
    response = await client.post("/agent-tests", json=body)
    assert (response.status_code, response.json()["limit"]) == (413, 12)
    assert models.requests == []


async def test_a_test_goes_on_in_the_background(client, models) -> None:
    models.turns, models.held = [Turn("Hello.")], threading.Event()
    body = {"name": "greetings", "input": "Hi", "models": ["gpt-4o"]}
    started = await client.post("/agent-tests", json=body, headers={"Prefer": "respond-async"})
    assert started.status_code == 202
    assert started.headers["Preference-Applied"] == "respond-async"
    path = started.headers["Location"]
    assert path == f"/agent-tests/{started.json()['id']}"
    running = (await client.get(path)).json()
    assert (running["state"], running["progress"]) == ("running", {"done": 0, "total": 1})
    assert "results" not in running
    assert (await client.get(path, params={"format": "junit"})).status_code == 409
    models.held.set()
    ended = await until_ended(client, path)
    assert (ended["state"], ended["passed"], ended["name"]) == ("done", True, "greetings")
    assert ended["results"][0]["response"] == "Hello."


async def test_results_are_sealed_in_the_database(client, models, application) -> None:
    models.turns = [Turn("A private sentence.")]
    got = (await client.post("/agent-tests", json={"input": "Hi", "models": ["gpt-4o"]})).json()
    async with application.services.database.read_session() as session:
        row = await session.get(AgentTestRow, got["id"])
    assert row is not None
    assert b"private" not in (row.sealed_result or b"private")


async def test_a_test_that_is_cancelled_has_the_results_of_what_has_ended(client, models, upstream) -> None:
    def turn(body):
        is_slow = body["messages"][0]["content"] == "slow"
        return Turn("", (SLOW,)) if is_slow else Turn("Hello.")

    models.turns = [turn]
    body = {
        "models": ["gpt-4o"], "plugins": ["filesystem"],
        "cases": [{"name": "quick", "input": "quick"}, {"name": "slow", "input": "slow"}],
    }  # fmt: skip
    started = await client.post("/agent-tests", json=body, headers={"Prefer": "respond-async"})
    path = started.headers["Location"]
    await upstream.arrived.wait()

    async def one_has_ended():
        return (await client.get(path)).json()["progress"]["done"] == 1

    await until(one_has_ended)
    cancelled = (await client.post(f"{path}/cancel")).json()
    assert (cancelled["state"], "passed" in cancelled) == ("cancelled", False)
    assert [one["testCase"]["name"] for one in cancelled["results"]] == ["quick"]
    upstream.released.set()
    # Cancelling it again changes nothing.
    assert (await client.post(f"{path}/cancel")).json() == cancelled


async def test_a_client_that_disconnects_cancels_its_test(application, client, models) -> None:
    models.turns, models.held = [Turn("Hello.")], threading.Event()
    task = asyncio.create_task(client.post("/agent-tests", json={"input": "Hi", "models": ["gpt-4o"]}))
    await until_asked(models)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    async def is_cancelled():
        async with application.services.database.read_session() as session:
            rows = await session.execute(select(AgentTestRow).order_by(AgentTestRow.id.desc()))
        return rows.scalars().first().state == "cancelled"

    await until(is_cancelled)
    models.held.set()


async def test_a_worker_runs_a_bounded_number_of_tests(client, models) -> None:
    models.turns, models.held = [Turn("Hello.")], threading.Event()
    body = {"input": "Hi", "models": ["gpt-4o"]}
    paths = []
    for _ in range(2):
        started = await client.post("/agent-tests", json=body, headers={"Prefer": "respond-async"})
        paths.append(started.headers["Location"])
    rejected = await client.post("/agent-tests", json=body)
    assert (rejected.status_code, rejected.headers["Retry-After"]) == (503, "10")
    models.held.set()
    for path in paths:
        assert (await until_ended(client, path))["state"] == "done"


async def test_another_key_does_not_see_a_test(application, client, models) -> None:
    models.turns = [Turn("Hello.")]
    got = (await client.post("/agent-tests", json={"input": "Hi", "models": ["gpt-4o"]})).json()
    other = await application.client("agent-tests:run")
    for response in (
        await other.get(f"/agent-tests/{got['id']}"),
        await other.post(f"/agent-tests/{got['id']}/cancel"),
    ):
        assert response.status_code == 404
    admin = await application.client("admin")
    assert (await admin.get(f"/agent-tests/{got['id']}")).status_code == 200


async def test_tools_need_the_scope_to_call_them(application, client, models) -> None:
    models.turns = [Turn("Hello.")]
    limited = await application.client("agent-tests:run")
    body = {"input": "Hi", "models": ["gpt-4o"]}
    assert (await limited.post("/agent-tests", json=body)).status_code == 200
    refused = await limited.post("/agent-tests", json={**body, "plugins": ["filesystem"]})
    assert (refused.status_code, refused.json()["missing_scopes"]) == (403, ["tools:call"])
    caller = await application.client("tools:call")
    assert (await caller.post("/agent-tests", json=body)).status_code == 403


async def test_a_key_that_is_limited_to_a_toolset_gets_no_other_tools(application, client, models) -> None:
    models.turns = [Turn("", (READ,)), Turn("done")]
    admin = await application.client("admin")
    key = {"name": "limited", "scopes": ["agent-tests:run", "tools:call"], "toolsets": ["filesystem"]}
    text = (await admin.post("/keys", json=key)).json()["key"]
    limited = {"Authorization": f"Bearer {text}"}
    body = {
        "input": "Hi", "models": ["gpt-4o"], "plugins": ["filesystem", "github"], "tools": ["up.login"],
    }  # fmt: skip
    got = (await client.post("/agent-tests", json=body, headers=limited)).json()
    assert got["warnings"] == [
        "Plugin 'github' not found: it was skipped.",
        "Tool 'up.login' not found: it was skipped.",
    ]
    assert [one["outcome"] for one in got["results"][0]["calls"]] == ["ok"]
    assert len(models.requests[0]["tools"]) == 2


async def test_junit_xml_has_a_suite_for_each_model(client, models) -> None:
    def turn(body):
        if body["model"] == "gpt-4o":
            return Turn("Hello \x07 <b>& ]]>")
        return Turn(status=400, content="no")

    models.turns = [turn]
    body = {
        "name": "greetings", "models": ["gpt-4o", "claude-x"],
        "prices": {"gpt-4o": {"input": 1_000, "output": 1_000}},
        "cases": [
            {"name": "says hello", "input": "1", "assertions": [HELLO]},
            {"name": "says goodbye", "input": "2", "assertions": [
                HELLO, {"type": "contains", "value": "Goodbye"}, {"type": "call_count", "exact": 1},
            ]},
        ],
    }  # fmt: skip
    response = await client.post("/agent-tests", json=body, headers={"Accept": "application/xml"})
    assert response.headers["content-type"].startswith("application/xml")
    root = ET.fromstring(response.content)
    assert (root.tag, root.get("name")) == ("testsuites", "greetings")
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "1", "2")
    gpt, claude = root
    assert [suite.get("name") for suite in root] == ["gpt-4o", "claude-x"]
    assert {one.get("name"): one.get("value") for one in gpt.iter("property")} == {
        "input_tokens": "20", "output_tokens": "10", "cost": "0.030000", "currency": "USD",
    }  # fmt: skip
    passed, failed = gpt.findall("testcase")
    assert (passed.get("name"), passed.get("classname")) == ("says hello", "greetings.gpt-4o")
    assert passed.find("failure") is None
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("message") == 'The response does not contain "Goodbye".'
    assert (failure.text or "").splitlines()[:2] == [
        'contains: The response does not contain "Goodbye".',
        "call_count: Tools were called 0 times; expected: exactly 1.",
    ]
    assert [one.find("error").get("message") for one in claude.findall("testcase")] == [
        "The API of the model responded with HTTP 400: no"
    ] * 2


async def test_a_stored_test_is_junit_xml_by_its_parameter(client, models) -> None:
    models.turns = [Turn("Hello.")]
    got = (await client.post("/agent-tests", json={"input": "Hi", "models": ["gpt-4o"]})).json()
    response = await client.get(f"/agent-tests/{got['id']}", params={"format": "junit"})
    assert ET.fromstring(response.content).get("tests") == "1"


async def test_the_time_of_a_test_is_bounded(application, toolsets, models) -> None:
    services = application.services
    hurried = replace(services, settings=services.settings.model_copy(update={"agent_test_seconds": 0.2}))
    runs = AgentTestRuns(hurried)
    models.turns, models.held = [Turn("Hello.")], threading.Event()
    request = AgentTestRequest.model_validate({"input": "Hi", "models": ["gpt-4o"]})
    row = await runs.start(request, principal=ADMIN, headers=TestHeaders())
    await runs.wait(row.id)
    models.held.set()
    stored = await runs.get(row.id, principal=ADMIN)
    (result,) = stored.results
    assert (result["passed"], result["stopped"]) == (False, "time")
    assert result["error"].startswith("The time of the test was over")


async def test_a_worker_that_stops_marks_its_tests_as_failed(application, client, models) -> None:
    models.turns, models.held = [Turn("Hello.")], threading.Event()
    async with open_runs(application.services) as runs:
        request = AgentTestRequest.model_validate({"input": "Hi", "models": ["gpt-4o"]})
        row = await runs.start(request, principal=ADMIN, headers=TestHeaders())
        await until_asked(models)
    models.held.set()
    admin = await application.client("admin")
    got = (await admin.get(f"/agent-tests/{row.id}")).json()
    assert (got["state"], got["problem"]["title"]) == ("failed", "The gateway is stopping")

"""`executeTest` of the article on universal plugins: a task, tools by the names of plugins, and any model."""

import json

import pytest

from tests.harness.model_peers import Turn, peers

MODELS = {"claude-sonnet-4": "anthropic", "gpt-4o": "openai-chat", "gemini-2.5-pro": "gemini"}
READ = ("read_file", {"path": "notes.txt"})
FIELDS = {
    "testCase", "model", "passed", "score", "response", "durationMs", "toolsUsed", "assertionsPassed",
    "assertionsTotal", "assertionDetails",
}  # fmt: skip
ADDED = {"calls", "iterations", "stopped", "usage", "repeat", "passRate", "warnings"}
SHOPPING = [
    {"type": "contains", "value": "milk"},
    {"type": "tool_called", "tool": "read_file", "arguments": {"path": "notes.txt"}},
]


def answer_of_results(dialect):
    """Return a turn that calls read_file, and one whose text is what that has returned."""

    def say(body):
        found = peers.results(dialect, body)[-1][1]
        return Turn(f"It says: {found if isinstance(found, str) else json.dumps(found)}")

    return [Turn("I read it.", (READ,)), say]


@pytest.mark.parametrize("model", MODELS)
async def test_the_result_has_the_same_fields_for_each_model(run, models, model) -> None:
    models.turns = answer_of_results(MODELS[model])
    result = await run(model, plugins=["filesystem"], prompt="You help.", assertions=SHOPPING)
    assert set(result) == FIELDS | ADDED
    assert (result["model"], result["testCase"]) == (
        model,
        {"name": "test", "input": "What does notes.txt say?"},
    )
    assert (result["passed"], result["score"]) == (True, 1.0)
    assert result["toolsUsed"] == ["read_file"]
    assert (result["assertionsPassed"], result["assertionsTotal"]) == (2, 2)
    assert [one["type"] for one in result["assertionDetails"]] == ["contains", "tool_called"]
    assert result["response"].startswith("It says: ")
    (call,) = result["calls"]
    assert (call["tool"], call["arguments"], call["outcome"], call["status"]) == (
        "up.readFile", {"path": "notes.txt"}, "ok", 200,
    )  # fmt: skip
    assert (result["iterations"], result["stopped"]) == (2, "done")
    assert result["usage"] == {"inputTokens": 20, "outputTokens": 10}


@pytest.mark.parametrize("model", MODELS)
async def test_requests_have_the_prompt_the_task_and_the_parameters_of_the_article(
    run, models, model
) -> None:
    models.turns = [Turn("Hello.")]
    await run(model, prompt="You help.", input="Say hello.")
    (body,) = models.requests
    path, headers = models.heads[0]
    if model.startswith("claude"):
        assert path == "/v1/messages"
        assert headers["x-api-key"] == "canary-anthropic-key-7Qx"
        assert body == {
            "model": model, "max_tokens": 4096, "temperature": 0, "system": "You help.",
            "messages": [{"role": "user", "content": "Say hello."}],
        }  # fmt: skip
    elif model.startswith("gpt"):
        assert path == "/v1/chat/completions"
        assert headers["Authorization"] == "Bearer canary-openai-key-7Qx"
        assert body == {
            "model": model, "max_tokens": 4096, "temperature": 0,
            "messages": [
                {"role": "system", "content": "You help."}, {"role": "user", "content": "Say hello."},
            ],
        }  # fmt: skip
    else:
        assert path == f"/v1beta/models/{model}:generateContent"
        assert headers["x-goog-api-key"] == "canary-gemini-key-7Qx"
        assert body == {
            "systemInstruction": {"parts": [{"text": "You help."}]},
            "contents": [{"role": "user", "parts": [{"text": "Say hello."}]}],
            "generationConfig": {"maxOutputTokens": 4096, "temperature": 0},
        }


async def test_the_same_plugins_work_with_claude_and_with_gpt_side_by_side(client, models) -> None:
    offered = {}

    def turn(body):
        is_claude = "system" in body
        tools = body["tools"]
        offered["claude" if is_claude else "gpt"] = [
            (one if is_claude else one["function"])["name"] for one in tools
        ]
        return Turn("done")

    models.turns = [turn]
    body = {
        "models": ["claude-sonnet-4", "gpt-4o"],
        "plugins": ["filesystem", "github"],
        "prompt": "You help.",
        "cases": [{"name": "one", "input": "Hi"}, {"name": "two", "input": "Ho"}],
    }
    response = await client.post("/agent-tests", json=body)
    got = response.json()
    assert (got["state"], got["passed"], got["progress"]) == ("done", True, {"done": 4, "total": 4})
    assert [(one["testCase"]["name"], one["model"]) for one in got["results"]] == [
        ("one", "claude-sonnet-4"), ("one", "gpt-4o"), ("two", "claude-sonnet-4"), ("two", "gpt-4o"),
    ]  # fmt: skip
    names = ["read_file", "write_file", "github_get_file"]
    assert {key: sorted(value) for key, value in offered.items()} == {
        "claude": sorted(names), "gpt": sorted(names),
    }  # fmt: skip


async def test_a_model_of_no_known_prefix_is_not_supported(client) -> None:
    response = await client.post("/agent-tests", json={"input": "Hi", "models": ["gpt-4o", "llama-3"]})
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert (error["pointer"], error["detail"]) == ("/models/1", "Unsupported model: llama-3")


@pytest.mark.parametrize("model", MODELS)
async def test_all_calls_of_a_turn_are_answered_in_their_order(run, models, model) -> None:
    calls = (READ, ("serch_file", {}), ("read_file", {"path": "missing"}), ("read_file", {"count": 1}))
    seen = []

    def last(body):
        seen.extend(peers.results(MODELS[model], body))
        return Turn("done")

    models.turns = [Turn("", calls), last]
    result = await run(model, plugins=["filesystem"])
    assert [is_error for _, _, is_error in seen] == [False, True, True, True]
    texts = [text if isinstance(text, str) else json.dumps(text) for _, text, _ in seen]
    assert "milk and bread" in texts[0]
    assert "There is no tool serch_file" in texts[1]
    assert "HTTP 404 from up" in texts[2]
    assert "/count" in texts[3]
    assert result["toolsUsed"] == [name for name, _ in calls]
    assert [one["outcome"] for one in result["calls"]] == ["ok", "error", "error", "error"]


async def test_only_tools_that_were_offered_can_be_called(run, models, upstream) -> None:
    called = (
        ("github_get_file", {"path": "x"}),
        ("up_readFile", {}),
        ("find_tools", {"query": "file"}),
        ("call_tool", {"name": "up.readFile", "arguments": {}}),
    )
    models.turns = [Turn("", called), Turn("done")]
    result = await run("gpt-4o", tools=["up.writeFile"])
    assert [one["outcome"] for one in result["calls"]] == ["error"] * 4
    assert all("There is no tool" in one["preview"] for one in result["calls"])
    assert upstream.requests == []


async def test_a_writing_call_that_is_made_twice_in_a_turn_is_made_once(run, models, upstream) -> None:
    write = ("write_file", {"path": "a", "content": "b"})
    models.turns = [Turn("", (write, write)), Turn("done")]
    result = await run("claude-x", plugins=["filesystem"])
    assert [one["outcome"] for one in result["calls"]] == ["ok", "skipped"]
    assert result["calls"][1]["preview"] == "Duplicate tool call skipped."
    assert len(upstream.requests) == 1


async def test_unknown_plugins_toolsets_and_tools_warn_and_are_skipped(client, models) -> None:
    models.turns = [Turn("done")]
    response = await client.post(
        "/agent-tests",
        json={
            "input": "Hi", "models": ["gpt-4o"], "plugins": ["filesystem", "gitbuh"], "toolsets": ["nothing"],
            "tools": ["up.nothing"],
        },
    )  # fmt: skip
    got = response.json()
    assert got["warnings"] == [
        "Plugin 'gitbuh' not found: it was skipped.",
        "Toolset 'nothing' not found: it was skipped.",
        "Tool 'up.nothing' not found: it was skipped.",
    ]
    assert got["results"][0]["warnings"] == got["warnings"]
    assert len(models.requests[0]["tools"]) == 2


async def test_tools_are_omitted_where_there_are_none(run, models) -> None:
    models.turns = [Turn("Hi")]
    result = await run("gpt-4o", plugins=["unknown"])
    assert "tools" not in models.requests[0]
    assert (result["passed"], result["score"], result["assertionsTotal"]) == (True, 1.0, 0)


async def test_a_model_that_goes_on_calling_ends_after_ten_iterations(run, models) -> None:
    models.turns = [Turn("I read on.", (READ,))]
    result = await run("claude-x", plugins=["filesystem"])
    assert len(models.requests) == 10
    assert (result["iterations"], result["stopped"], result["response"]) == (10, "iterations", "I read on.")
    assert len(result["calls"]) == 10


async def test_calls_are_recorded_with_the_interface_and_the_toolset(
    run, models, client, application
) -> None:
    models.turns = [Turn("", (READ,)), Turn("done")]
    result = await run("gpt-4o", plugins=["filesystem"])
    await application.services.call_log.flush()
    call_id = result["calls"][0]["callId"]
    record = (await client.get(f"/calls/{call_id}")).json()
    assert (record["interface"], record["toolset"], record["tool"]) == (
        "agent-test", "filesystem", "up.readFile",
    )  # fmt: skip


@pytest.mark.parametrize("dialect", ["openai-responses", "json-prompt"])
async def test_further_dialects_are_chosen_by_name(run, models, dialect) -> None:
    turns = [Turn("", (READ,)), Turn("It says milk.")]
    models.turns = peers.script(dialect, *turns)
    result = await run({"model": "gpt-4o", "dialect": dialect}, plugins=["filesystem"], assertions=SHOPPING)
    assert (result["passed"], result["toolsUsed"]) == (True, ["read_file"]), result
    assert ("tools" in models.requests[0]) == (dialect != "json-prompt")


async def test_reasoning_models_get_no_temperature(run, models) -> None:
    models.turns = [Turn("Hi")]
    await run("o3-mini", max_tokens=50)
    assert models.requests[0]["max_completion_tokens"] == 50
    assert not {"temperature", "max_tokens"} & models.requests[0].keys()


async def test_options_of_a_model_are_members_of_its_requests(run, models) -> None:
    models.turns = [Turn("Hi")]
    await run({"model": "gpt-4o", "options": {"seed": 7, "temperature": 1}})
    assert (models.requests[0]["seed"], models.requests[0]["temperature"]) == (7, 1)


async def test_a_call_without_an_id_gets_one(run, models) -> None:
    def without_id(body):
        for call in body["choices"][0]["message"].get("tool_calls", ()):
            del call["id"]

    models.turns = [Turn("", (READ, ("read_file", {"path": "b"})), change=without_id), Turn("done")]
    await run("gpt-4o", plugins=["filesystem"])
    _, message, *results = models.requests[1]["messages"]
    ids = [call["id"] for call in message["tool_calls"]]
    assert len(set(ids)) == 2
    assert [one["tool_call_id"] for one in results] == ids


async def test_arguments_are_masked_and_results_are_previews(run, models) -> None:
    models.turns = [
        Turn("", (("login", {"password": "hunter2-secret"}), ("read_file", {"path": "long"}))),
        Turn("done"),
    ]
    called = {"type": "tool_called", "tool": "login", "arguments": {"password": "other"}}
    result = await run("gpt-4o", toolsets=["accounts", "filesystem"], assertions=[called])
    login, read = result["calls"]
    assert login["arguments"] == {"password": "***"}
    assert "hunter2-secret" not in result["assertionDetails"][0]["message"]
    assert read["preview"].startswith("ä" * 250 + "... (")


async def test_nothing_that_models_or_tools_say_is_logged(run, models, capfd) -> None:
    models.turns = [Turn("secret words", (READ,)), Turn("last words")]
    await run("gpt-4o", plugins=["filesystem"], input="first words", prompt="system words")
    output = "".join(capfd.readouterr())
    assert "agent test: model responded" in output
    for text in ("secret words", "last words", "first words", "system words", "notes.txt", "milk"):
        assert text not in output

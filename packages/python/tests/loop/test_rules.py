"""The rules of the loop, each over each model: limits, duplicates, errors, previews and logs."""

import asyncio
import json
import logging
import threading

import pytest
from model_peers import DIALECTS, NATIVE, ModelServer, Turn, results, script

from utcp_gateway_client.loop import Limits, run
from utcp_gateway_client.tools import Tool, ToolError


def add(a: int, b: int) -> int:
    return a + b


def close(shop: str) -> str:
    raise ToolError(f"{shop} is closed.") if shop else LookupError("internals")


async def outcomes(dialect, tools, *calls, **options):
    """Run a turn with these calls, and return (text, is_error) of their results."""
    with ModelServer(script(dialect, Turn(calls=calls), Turn("End"))) as server:
        result = await run("x", model=server.model(dialect), tools=tools, **options)
    assert (result.text, result.stopped, len(result.calls)) == ("End", "done", len(calls))
    return [one[1:] for one in results(dialect, server.requests[-1])]


def test_limits_are_those_of_the_documentation():
    limits = Limits()
    found = (limits.max_iterations, limits.call_seconds, limits.run_seconds, limits.parallel_calls)
    assert found == (15, 120, 600, 8)
    assert [Limits(max_iterations=each).max_iterations for each in (1, 50)] == [1, 50]


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"max_iterations": 0}, "between 1 and 50"),
        ({"max_iterations": 51}, "between 1 and 50"),
        ({"call_seconds": 0}, "at most 120"),
        ({"call_seconds": 120.1}, "at most 120"),
        ({"run_seconds": 0}, "above 0"),
        ({"parallel_calls": 0}, "above 0"),
    ],
)
def test_limits_are_checked(limits, text):
    with pytest.raises(ValueError, match=text):
        Limits(**limits)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("limit", [None, 1])
async def test_the_cap_ends_the_run_with_the_text_so_far(dialect, limit):
    limits, expected = (Limits(), 15) if limit is None else (Limits(max_iterations=limit), limit)
    turns = script(dialect, Turn("I count.", (("add", {"a": 1, "b": 2}),)))
    with ModelServer(turns) as server:
        result = await run("Count", model=server.model(dialect), tools=add, limits=limits)
    assert (result.stopped, result.iterations, len(result.calls)) == ("iterations", expected, expected)
    assert result.text == turns[0].text
    assert len(server.requests) == expected


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("own", "limit"), [(0.05, 120), (None, 0.05), (300, 0.05)], ids=["tool", "run", "shorter"]
)
async def test_a_call_ends_at_the_limit_of_its_tool_or_of_the_run(dialect, own, limit):
    cancelled = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    tool = Tool(wait, timeout_seconds=own)
    found = await outcomes(dialect, tool, ("wait", {}), limits=Limits(call_seconds=limit))
    assert found == [("timed out after 0.05 s", True)]
    assert cancelled.is_set()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_run_ends_at_its_limit_while_the_model_thinks(dialect):
    with ModelServer([Turn("Never")], held=threading.Event()) as server:
        result = await run("x", model=server.model(dialect), limits=Limits(run_seconds=0.1))
    assert (result.stopped, result.text, result.iterations) == ("time", "", 0)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_run_ends_at_its_limit_while_a_tool_runs(dialect):
    async def wait() -> None:
        await asyncio.Event().wait()

    with ModelServer(script(dialect, Turn("I wait.", (("wait", {}),)))) as server:
        result = await run("x", model=server.model(dialect), tools=wait, limits=Limits(run_seconds=0.5))
    assert result.stopped == "time"
    assert [one.is_error for one in result.calls] == [True] * result.iterations


@pytest.mark.parametrize("dialect", NATIVE)
async def test_eight_calls_run_at_once_and_results_are_in_the_order_of_calls(dialect):
    running, most, ended = 0, 0, []
    full = asyncio.Event()
    after = [asyncio.Event() for _ in range(10)]

    async def work(number: int) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 8:
            full.set()
        await full.wait()
        if number < 7:
            # The first ends last.
            await after[number + 1].wait()
        after[number].set()
        ended.append(number)
        running -= 1
        return f"done {number}"

    calls = [("work", {"number": number}) for number in range(10)]
    with ModelServer(script(dialect, Turn(calls=calls), Turn("End"))) as server:
        result = await run("x", model=server.model(dialect), tools=work)
    found = [one[1:] for one in results(dialect, server.requests[-1])]
    assert found == [(f"done {number}", False) for number in range(10)]
    assert [each.preview for each in result.calls] == [f"done {number}" for number in range(10)]
    assert most == 8
    assert ended.index(7) < ended.index(0)


@pytest.mark.parametrize("dialect", NATIVE)
async def test_each_call_is_answered_under_its_id_also_those_that_are_not_made(dialect):
    made = []

    def meet(name: str) -> str:
        made.append(name)
        return name

    calls = (
        ("meet", {"name": "a"}),
        ("meet", {"name": "b"}),
        ("met", {}),
        ("meet", {"name": "a"}),
        ("meet", {"nam": "c"}),
    )
    with ModelServer([Turn(calls=calls), Turn("End")]) as server:
        await run("Meet", model=server.model(dialect), tools=meet)
    found = [one[0] for one in results(dialect, server.requests[-1])]
    # Gemini has no ids in this script: a response has the name, in the order of the calls.
    assert found == (
        [name for name, _ in calls] if dialect == "gemini" else [f"call_1_{n}" for n in range(5)]
    )
    assert sorted(made) == ["a", "b"]


@pytest.mark.parametrize("dialect", NATIVE)
@pytest.mark.parametrize("read_only", [False, True])
async def test_identical_calls_run_once(dialect, read_only):
    made = []

    def look(at: str, far: bool = False) -> str:
        made.append(at)
        return f"{at} {len(made)}"

    # The order of members is no difference, nor is white space in the text of the arguments.
    calls = [("look", {"at": "x", "far": True}), ("look", {"far": True, "at": "x"}), ("look", {"at": "x"})]
    if dialect.startswith("openai"):
        calls[1] = ("look", ' {"far":true,"at":"x"}')
    first, second, third = await outcomes(dialect, Tool(look, read_only=read_only), *calls)
    assert second == (first if read_only else ("Duplicate tool call skipped.", False))
    assert len(made) == 2
    assert {first, third} == {("x 1", False), ("x 2", False)}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_errors_are_results_with_the_flag_of_the_dialect(dialect):
    found = await outcomes(
        dialect,
        [add, close],
        ("add", {"a": "one", "c": 2}),
        ("ad", {"a": 1, "b": 2}),
        ("close", {"shop": "Ours"}),
        ("close", {"shop": ""}),
        ("add", {"a": 1, "b": 2}),
    )
    invalid, unknown, error, unexpected, good = found
    assert [is_error for _, is_error in found] == [True, True, True, True, False]
    pointers = [each["pointer"] for each in json.loads(invalid[0])["errors"]]
    assert sorted(pointers) == ["/a", "/b", "/c"]
    assert unknown[0] == "unknown tool 'ad'. The nearest names are add."
    assert json.loads(error[0]) == {"error": "Ours is closed."}
    # Of other exceptions, a model learns the type only.
    assert json.loads(unexpected[0]) == {"error": "The tool has failed (LookupError)."}
    assert good[0] == "3"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_tool_that_awaits_something_cancelled_does_not_end_the_run(dialect):
    async def wait() -> None:
        raise asyncio.CancelledError

    ((text, is_error),) = await outcomes(dialect, wait, ("wait", {}))
    assert (json.loads(text), is_error) == ({"error": "The tool has failed (CancelledError)."}, True)


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "json-prompt"])
async def test_arguments_that_are_not_json_are_an_error_result(dialect):
    arguments = '{"tool_name": "add", "arguments": {"a": 1' if dialect == "json-prompt" else '{"a": '
    ((text, is_error),) = await outcomes(dialect, add, ("add", arguments))
    assert is_error
    assert json.loads(text)["errors"][0]["message"].startswith("This is not JSON")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("text", "preview"),
    [
        ("\N{SNOWMAN}" * 166 + "xy", "\N{SNOWMAN}" * 166 + "xy"),
        ("x" + "\N{SNOWMAN}" * 200, "x" + "\N{SNOWMAN}" * 166 + "... (601 bytes)"),
        ("xx" + "\N{GRINNING FACE}" * 200, "xx" + "\N{GRINNING FACE}" * 124 + "... (802 bytes)"),
    ],
    ids=["whole", "three-bytes", "four-bytes"],
)
async def test_previews_end_between_characters_and_the_model_gets_everything(dialect, text, preview):
    def draw() -> str:
        return text

    with ModelServer(script(dialect, Turn(calls=(("draw", {}),)), Turn("End"))) as server:
        result = await run("Draw", model=server.model(dialect), tools=draw)
    assert result.calls[0].preview == preview
    assert results(dialect, server.requests[-1])[0][1] == text


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_logs_have_no_arguments_results_texts_or_keys(dialect, caplog):
    def look(at: str) -> str:
        return f"result of {at}"

    turns = script(dialect, Turn("text of the model", (("look", {"at": "argument"}),)), Turn("End"))
    with caplog.at_level(logging.INFO, "utcp_gateway_client"), ModelServer(turns) as server:
        model = server.model(dialect)
        await run("prompt text", model=model, tools=look, system="system text")
    lines = [one.getMessage() for one in caplog.records if one.name.startswith("utcp_gateway_client")]
    provider = "openai" if dialect == "json-prompt" else dialect.partition("-")[0]
    assert [line.partition(" seconds")[0] for line in lines] == [
        f"provider={provider} model=m iteration=1 calls=1",
        f"provider={provider} model=m iteration=1 tool=look",
        f"provider={provider} model=m iteration=2 calls=0",
    ]
    assert lines[1].endswith("error=False")
    assert "secret-key" not in repr(model)

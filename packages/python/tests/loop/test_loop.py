"""The loop with the SDKs of the providers, against servers with scripted models."""

import asyncio
import json
import logging
import threading

import pytest
from model_peers import SIGNATURE, ModelServer, Turn, results
from pydantic import BaseModel, Field

from utcp_gateway_client.loop import (
    CallFinished,
    CallStarted,
    Hooks,
    Limits,
    MessagesAdded,
    ModelResponded,
    RunFinished,
    TextDelta,
    Usage,
    run,
    run_sync,
    stream,
)
from utcp_gateway_client.loop.models import model_named
from utcp_gateway_client.tools import Tool, ToolCollection

NATIVE = ("openai-chat", "openai-responses", "anthropic", "gemini")
DIALECTS = (*NATIVE, "json-prompt")
JSON_TEXT = ("openai-chat", "openai-responses")


class GetWeather(BaseModel):
    location: str = Field(description="City and country e.g. San Jose, USA")


def get_weather(arguments: GetWeather) -> str:
    """Get current temperature for a given location."""
    return f"10 in {arguments.location}"


def script(dialect, *turns):
    """Return turns as a model of the dialect writes them: without tool calling, calls are text."""
    if dialect != "json-prompt":
        return list(turns)
    return [
        Turn(f'I call it.\n```json\n{json.dumps({"tool_name": turn.calls[0][0], "arguments": turn.calls[0][1]})}\n```')
        if turn.calls
        else turn
        for turn in turns
    ]  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_weather_is_one_call_then_a_text(dialect):
    turns = script(
        dialect, Turn(calls=(("get_weather", {"location": "San Jose, USA"}),)), Turn("It is 10 degrees.")
    )
    with ModelServer(turns) as server:
        result = await run(
            "What is the weather in San Jose, USA?",
            model=server.model(dialect),
            tools=get_weather,
            system="Be kind.",
        )
    assert (result.text, result.stopped, result.iterations) == ("It is 10 degrees.", "done", 2)
    assert [(one.call.name, one.is_error, one.preview) for one in result.calls] == [
        ("get_weather", False, "10 in San Jose, USA")
    ]
    assert result.usage == Usage(20, 10)
    first, second = server.requests
    assert "City and country" in json.dumps(first)
    assert "Be kind." in json.dumps(first)
    assert [one[1:] for one in results(dialect, second)] == [("10 in San Jose, USA", False)]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_thermostat_is_read_and_then_set(dialect):
    temperature = 60.0

    def get_thermostat_temperature() -> float:
        return temperature

    def set_thermostat_temperature(temp: float) -> str:
        nonlocal temperature
        temperature = temp
        return ""

    turns = script(
        dialect,
        Turn(calls=(("get_thermostat_temperature", {}),)),
        Turn(calls=(("set_thermostat_temperature", {"temp": 70}),)),
        Turn("Done."),
    )
    tools = ToolCollection([get_thermostat_temperature, set_thermostat_temperature])
    with ModelServer(turns) as server:
        result = await run("Increase the temperature by 10 degrees", model=server.model(dialect), tools=tools)
    assert (result.text, temperature) == ("Done.", 70)
    assert [one[1] for one in results(dialect, server.requests[-1])] == ["60.0", ""]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_cap_ends_the_run_with_the_text_so_far(dialect):
    made = []

    def count(number: int) -> int:
        made.append(number)
        return number

    first = Turn(calls=(("count", {"number": 1}),))
    turns = script(dialect, first)
    turns[0].text = turns[0].text or "I count."
    with ModelServer(turns) as server:
        result = await run("Count", model=server.model(dialect), tools=count)
    assert (result.stopped, result.iterations, len(made)) == ("iterations", 15, 15)
    assert result.text == turns[0].text
    assert len(server.requests) == 15


@pytest.mark.parametrize("dialect", NATIVE)
async def test_calls_of_a_turn_run_at_once_and_each_is_answered_in_order(dialect):
    both = threading.Barrier(2)
    made = []

    def meet(name: str) -> str:
        both.wait()
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
        result = await run("Meet", model=server.model(dialect), tools=meet)
    assert sorted(made) == ["a", "b"]
    found = results(dialect, server.requests[-1])
    ids = [f"call_1_{number}" for number in range(5)] if dialect != "gemini" else [name for name, _ in calls]
    assert [one[0] for one in found] == ids
    assert [one[1:] for one in found[:4]] == [
        ("a", False),
        ("b", False),
        ("unknown tool 'met'. The nearest names are meet.", True),
        ("Duplicate tool call skipped.", False),
    ]
    assert found[4][2] is True
    assert [one["pointer"] for one in json.loads(found[4][1])["errors"]] == ["/nam", "/name"]
    assert len(result.calls) == 5


@pytest.mark.parametrize("dialect", NATIVE)
async def test_identical_calls_of_a_read_only_tool_run_once(dialect):
    made = []

    def look(at: str) -> str:
        made.append(at)
        return f"{at} {len(made)}"

    calls = (("look", {"at": "x"}), ("look", {"at": "x"}))
    with ModelServer([Turn(calls=calls), Turn("End")]) as server:
        await run("Look", model=server.model(dialect), tools=Tool(look, read_only=True))
    assert [one[1] for one in results(dialect, server.requests[-1])] == ["x 1", "x 1"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_call_ends_at_the_limit_of_its_tool(dialect):
    stopped = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    turns = script(dialect, Turn(calls=(("wait", {}),)), Turn("End"))
    with ModelServer(turns) as server:
        result = await run("Wait", model=server.model(dialect), tools=Tool(wait, timeout_seconds=0.05))
    assert stopped.is_set()
    assert (result.text, result.stopped) == ("End", "done")
    assert [one[1:] for one in results(dialect, server.requests[-1])] == [("timed out after 0.05 s", True)]


async def test_a_function_that_blocks_neither_blocks_the_loop_nor_outlasts_its_limit():
    end = threading.Event()

    def block() -> None:
        end.wait()

    with ModelServer([Turn(calls=(("block", {}),)), Turn("End")]) as server:
        try:
            model = server.model("openai-chat")
            result = await run("Block", model=model, tools=block, limits=Limits(call_seconds=0.05))
        finally:
            end.set()
    assert (result.text, result.calls[0].preview) == ("End", "timed out after 0.05 s")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_previews_end_between_characters_and_the_model_gets_everything(dialect):
    def draw() -> str:
        return "x" + "\N{SNOWMAN}" * 200

    with ModelServer(script(dialect, Turn(calls=(("draw", {}),)), Turn("End"))) as server:
        result = await run("Draw", model=server.model(dialect), tools=draw)
    assert result.calls[0].preview == "x" + "\N{SNOWMAN}" * 166 + "... (601 bytes)"
    assert results(dialect, server.requests[-1])[0][1] == draw()


@pytest.mark.parametrize("dialect", JSON_TEXT)
async def test_arguments_that_are_not_json_are_an_error_result(dialect):
    with ModelServer([Turn(calls=(("get_weather", '{"location": '),)), Turn("End")]) as server:
        await run("Weather", model=server.model(dialect), tools=get_weather)
    ((_, text, is_error),) = results(dialect, server.requests[-1])
    assert is_error
    assert json.loads(text)["errors"][0]["message"].startswith("This is not JSON")


@pytest.mark.parametrize(
    ("dialect", "finish"),
    [
        ("openai-chat", "length"),
        ("openai-responses", "max_output_tokens"),
        ("anthropic", "max_tokens"),
        ("gemini", "MAX_TOKENS"),
    ],
)
async def test_calls_of_a_response_that_was_cut_off_are_not_made(dialect, finish):
    made = []

    def act() -> None:
        made.append(1)

    with ModelServer([Turn(calls=(("act", {}),), finish=finish), Turn("End")]) as server:
        model = server.model(dialect)
        result = await run("Act", model=model, tools=act)
        assert (result.stopped, result.reason, made) == ("length", finish, [])
        # The call is answered, so that the history can be continued.
        again = await run("Go on", model=model, tools=act, history=result.history)
    assert again.text == "End"
    assert results(dialect, server.requests[-1])[0][2] is True


@pytest.mark.parametrize(
    ("dialect", "turn", "text"),
    [
        ("openai-chat", Turn(refusal="No."), "No."),
        ("openai-chat", Turn("I", finish="content_filter"), "I"),
        ("openai-responses", Turn(refusal="No."), "No."),
        ("openai-responses", Turn("I", finish="content_filter"), "I"),
        ("anthropic", Turn("I", finish="refusal"), "I"),
        ("gemini", Turn("I", finish="SAFETY"), "I"),
    ],
)
async def test_refusals_end_the_run(dialect, turn, text):
    with ModelServer([turn]) as server:
        result = await run("Do it", model=server.model(dialect))
    assert (result.stopped, result.text) == ("refusal", text)


async def test_a_turn_that_was_paused_is_continued():
    with ModelServer([Turn("I search", finish="pause_turn"), Turn("Found")]) as server:
        result = await run("Search", model=server.model("anthropic"))
    assert (result.text, result.iterations) == ("Found", 2)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_events_tell_what_happens_and_text_is_streamed(dialect):
    turns = script(
        dialect, Turn("I look.", (("get_weather", {"location": "Paris"}),)), Turn("It is 10 degrees.")
    )
    with ModelServer(turns) as server:
        events = [one async for one in stream("Weather?", model=server.model(dialect), tools=get_weather)]
    kinds = [type(one) for one in events if not isinstance(one, TextDelta)]
    assert kinds == [
        MessagesAdded, ModelResponded, MessagesAdded, CallStarted, CallFinished, MessagesAdded, ModelResponded,
        MessagesAdded, RunFinished,
    ]  # fmt: skip
    text = "".join(one.text for one in events if isinstance(one, TextDelta))
    assert text == turns[0].text + "It is 10 degrees."
    result = events[-1].result
    added = [message for one in events if isinstance(one, MessagesAdded) for message in one.messages]
    assert (result.text, result.usage) == ("It is 10 degrees.", Usage(20, 10))
    assert result.history == added
    assert [one[1] for one in results(dialect, server.requests[-1])] == ["10 in Paris"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_history_is_json_and_can_be_continued(dialect):
    turns = script(dialect, Turn(calls=(("get_weather", {"location": "Paris"}),)), Turn("10."), Turn("Yes."))
    with ModelServer(turns) as server:
        model = server.model(dialect)
        first = await run("Weather?", model=model, tools=get_weather)
        history = json.loads(json.dumps(first.history))
        second = await run("Sure?", model=model, tools=get_weather, history=history)
    assert second.text == "Yes."
    assert list(second.history[: len(history)]) == history
    sent = json.dumps(server.requests[-1])
    assert "Weather?" in sent
    assert "Sure?" in sent
    if dialect in ("gemini", "openai-responses"):
        assert SIGNATURE in sent


def test_sync_form_and_sync_hooks():
    told = []
    hooks = Hooks(
        approve=lambda call: call.arguments != '{"location": "Rome"}',
        before_call=lambda call: told.append(("before", call.id)),
        after_call=lambda call, answer: told.append(("after", call.id, answer.is_error)),
    )
    calls = (("get_weather", {"location": "Rome"}), ("get_weather", {"location": "Paris"}))
    with ModelServer([Turn(calls=calls), Turn("End")]) as server:
        result = run_sync("Weather?", model=server.model("openai-chat"), tools=[get_weather], hooks=hooks)
    assert result.text == "End"
    assert told == [("after", "call_1_0", True), ("before", "call_1_1"), ("after", "call_1_1", False)]
    assert results("openai-chat", server.requests[-1])[0][1:] == ("The call was not approved.", True)


async def test_what_a_hook_raises_ends_the_run_and_the_other_calls():
    cancelled = asyncio.Event()

    async def wait(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    def before(call):
        if '"number": 2' in call.arguments:
            raise LookupError("stop")

    calls = (("wait", {"number": 1}), ("wait", {"number": 2}))
    with ModelServer([Turn(calls=calls)]) as server, pytest.raises(LookupError):
        await run("x", model=server.model("openai-chat"), tools=wait, hooks=Hooks(before_call=before))
    assert cancelled.is_set()


async def test_a_run_ends_at_its_limit_while_the_model_thinks():
    with ModelServer([Turn("Never")], held=threading.Event()) as server:
        result = await run("x", model=server.model("openai-chat"), limits=Limits(run_seconds=0.1))
    assert (result.stopped, result.text, result.iterations) == ("time", "", 0)


async def test_closing_the_events_cancels_the_calls():
    cancelled = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with ModelServer([Turn(calls=(("wait", {}),))]) as server:
        events = stream("x", model=server.model("openai-chat"), tools=wait)
        async for event in events:
            if isinstance(event, CallStarted):
                # The call begins before its result is waited for.
                await asyncio.sleep(0)
                break
        await events.aclose()
    assert cancelled.is_set()


async def test_logs_have_no_arguments_results_or_keys(caplog):
    def look(at: str) -> str:
        return f"result of {at}"

    with caplog.at_level(logging.INFO, "utcp_gateway_client"), ModelServer(
        [Turn("text of the model", (("look", {"at": "argument"}),)), Turn("End")]
    ) as server:  # fmt: skip
        model = server.model("openai-chat")
        await run("prompt text", model=model, tools=look)
    lines = [one.getMessage() for one in caplog.records if one.name.startswith("utcp_gateway_client")]
    assert [line.partition(" seconds")[0] for line in lines] == [
        "provider=openai model=m iteration=1 calls=1",
        "provider=openai model=m iteration=1 tool=look",
        "provider=openai model=m iteration=2 calls=0",
    ]
    assert "secret-key" not in repr(model)


@pytest.mark.parametrize("iterations", [0, 51])
def test_limits_are_checked(iterations):
    with pytest.raises(ValueError, match="between 1 and 50"):
        Limits(max_iterations=iterations)


async def test_what_cannot_be_run_is_an_error():
    with pytest.raises(ValueError, match="prompt or a history"):
        await run(None, model="gpt-x")
    with pytest.raises(ValueError, match="Unsupported model: m"):
        await run("x", model="m")
    with pytest.raises(TypeError, match="int is no source"):
        await run("x", model="gpt-x", tools=1)
    assert [model_named(name).provider for name in ("claude-x", "gpt-x", "gemini-x")] == [
        "anthropic", "openai", "gemini",
    ]  # fmt: skip

"""The loop with the SDKs of the providers, against servers with scripted models."""

import asyncio
import json
import threading

import pytest
from model_peers import DIALECTS, SIGNATURE, ModelServer, Turn, results, script
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
from utcp_gateway_client.loop.models import Anthropic, OpenAIChat, model_named
from utcp_gateway_client.tools import ToolCollection


class GetWeather(BaseModel):
    location: str = Field(description="City and country e.g. San Jose, USA")


def get_weather(arguments: GetWeather) -> str:
    """Get current temperature for a given location."""
    return f"10 in {arguments.location}"


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


@pytest.mark.parametrize(
    ("variable", "dialect"),
    [
        ("OPENAI_BASE_URL", "openai-chat"),
        ("ANTHROPIC_BASE_URL", "anthropic"),
        ("GOOGLE_GEMINI_BASE_URL", "gemini"),
    ],
)
async def test_the_base_url_of_the_environment_decides_about_other_names(monkeypatch, variable, dialect):
    with ModelServer([Turn("Hello")]) as server:
        for each in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
            monkeypatch.delenv(each, raising=False)
        monkeypatch.setenv(variable, server.url)
        for each in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
            monkeypatch.setenv(each, "k")
        result = await run("x", model="llama3.3")
    assert (result.text, model_named("llama3.3").dialect) == ("Hello", dialect)


def test_a_base_url_that_is_given_goes_before_that_of_the_environment():
    environment = {"OPENAI_BASE_URL": "http://a/v1", "ANTHROPIC_BASE_URL": "http://b"}
    assert model_named("llama3.3", "http://c/v1", environment=environment) == OpenAIChat(
        "llama3.3", "http://c/v1"
    )
    assert model_named("claude-x", "http://c", environment={}) == Anthropic("claude-x", "http://c")
    with pytest.raises(ValueError, match="OPENAI_BASE_URL and ANTHROPIC_BASE_URL are set"):
        model_named("llama3.3", environment=environment)


async def test_what_cannot_be_run_is_an_error(monkeypatch):
    for each in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(each, raising=False)
    with pytest.raises(ValueError, match="prompt or a history"):
        await run(None, model="gpt-x")
    with pytest.raises(ValueError, match="Unsupported model: m"):
        await run("x", model="m")
    with pytest.raises(TypeError, match="int is no source"):
        await run("x", model="gpt-x", tools=1)
    assert [model_named(name).provider for name in ("claude-x", "gpt-x", "gemini-x")] == [
        "anthropic", "openai", "gemini",
    ]  # fmt: skip

"""Responses of models that leave something out, or have calls in another form; as servers of these interfaces send them."""

import json

import pytest
from model_peers import DIALECTS, NATIVE, ModelServer, Turn, results, script
from tool_gateway import ToolGateway

from utcp_gateway_client.loop import OpenAIChat, OpenAIResponses, RunFinished, Usage, run, stream


def add(a: int, b: int) -> int:
    return a + b


CALL = ("add", {"a": 1, "b": 2})
TEXT = json.dumps(CALL[1])


async def finished(model, tools, *, streamed, **options):
    """Run, with or without a stream of events, and return the result."""
    if not streamed:
        return await run("x", model=model, tools=tools, **options)
    events = [one async for one in stream("x", model=model, tools=tools, **options)]
    assert isinstance(events[-1], RunFinished)
    return events[-1].result


def message(body):
    return body["choices"][0]["message"]


def set_calls(*calls):
    """Return a change that gives a response of Chat Completions these calls."""

    def change(body):
        message(body)["tool_calls"] = [dict(each) for each in calls]

    return change


def custom(text, name="add"):
    return {"id": "call_a", "type": "custom", "custom": {"name": name, "input": text}}


streams = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@streams
@pytest.mark.parametrize(("text", "expected"), [(TEXT, "3"), ("one and two", "Error: ")])
async def test_custom_calls_of_chat_completions(text, expected, streamed):
    with ModelServer([Turn(change=set_calls(custom(text))), Turn("End")]) as server:
        result = await finished(server.model("openai-chat"), add, streamed=streamed)
    assert result.text == "End"
    _, sent, answer = server.requests[-1]["messages"]
    assert sent["tool_calls"] == [custom(text)]
    assert (answer["role"], answer["tool_call_id"]) == ("tool", "call_a")
    assert answer["content"].startswith(expected)


def custom_item(text):
    return {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_a", "name": "add", "input": text}


def set_custom_item(body):
    body["output"].append(custom_item(TEXT))


async def test_custom_calls_of_responses_have_outputs_of_their_own_type():
    with ModelServer([Turn(change=set_custom_item), Turn("End")]) as server:
        await run("x", model=server.model("openai-responses"), tools=add)
    sent, answer = server.requests[-1]["input"][-2:]
    assert sent == custom_item(TEXT)
    assert answer == {"type": "custom_tool_call_output", "call_id": "call_a", "output": "3"}


@pytest.mark.parametrize(
    ("model", "calls", "body"),
    [
        (OpenAIChat("m"), set_calls(custom(TEXT)), {"role": "assistant", "tool_calls": [custom(TEXT)]}),
        (
            OpenAIChat("m"),
            lambda body: message(body).update(function_call={"name": "add", "arguments": TEXT}),
            {"role": "assistant", "function_call": {"name": "add", "arguments": TEXT}},
        ),
        (
            OpenAIResponses("m"),
            set_custom_item,
            [{"type": "custom_tool_call", "call_id": "call_a", "name": "add", "input": TEXT}],
        ),
    ],
    ids=["custom", "legacy", "custom-item"],
)
async def test_a_gateway_gets_calls_in_the_form_of_the_model(model, calls, body):
    with ModelServer([Turn(change=calls), Turn("End")]) as server, ToolGateway("add") as gateway:
        async with gateway.client() as client:
            await run("x", model=server.model(model.dialect), tools=client)
    assert gateway.bodies == [body]


@streams
async def test_former_function_call_gets_a_message_of_the_role_function(streamed):
    def change(body):
        message(body)["function_call"] = {"name": "add", "arguments": TEXT}
        body["choices"][0]["finish_reason"] = "function_call"

    with ModelServer([Turn(change=change), Turn("End")]) as server:
        result = await finished(server.model("openai-chat"), add, streamed=streamed)
    assert result.text == "End"
    _, sent, answer = server.requests[-1]["messages"]
    assert sent["function_call"] == {"name": "add", "arguments": TEXT}
    assert answer == {"role": "function", "name": "add", "content": "3"}


@streams
@pytest.mark.parametrize(
    "call",
    [
        {"type": "function", "function": {"name": "add", "arguments": TEXT}},
        {"id": "", "type": "function", "function": {"name": "add", "arguments": TEXT}},
        {"function": {"name": "add", "arguments": TEXT}},
    ],
    ids=["missing", "empty", "only-the-function"],
)
async def test_calls_without_id_get_one_that_their_results_have(call, streamed):
    other = {**call, "function": {"name": "add", "arguments": '{"a": 2, "b": 2}'}}
    with ModelServer([Turn(change=set_calls(call, other)), Turn("End")]) as server:
        await finished(server.model("openai-chat"), add, streamed=streamed)
    _, sent, first, second = server.requests[-1]["messages"]
    ids = [each["id"] for each in sent["tool_calls"]]
    assert len(set(ids)) == 2
    assert all(ids)
    assert [first["tool_call_id"], second["tool_call_id"]] == ids
    assert [first["content"], second["content"]] == ["3", "4"]


@streams
async def test_calls_with_the_same_id_are_told_apart(streamed):
    calls = [{"id": "call_0", "type": "function", "function": {"name": "add", "arguments": text}}
             for text in (TEXT, '{"a": 2, "b": 2}')]  # fmt: skip
    with ModelServer([Turn(change=set_calls(*calls)), Turn("End")]) as server:
        await finished(server.model("openai-chat"), add, streamed=streamed)
    _, sent, first, second = server.requests[-1]["messages"]
    assert [each["id"] for each in sent["tool_calls"]] == [first["tool_call_id"], second["tool_call_id"]]
    assert first["tool_call_id"] != second["tool_call_id"]


async def test_arguments_that_are_an_object_are_taken_as_they_are():
    call = {"id": "a", "type": "function", "function": {"name": "add", "arguments": CALL[1]}}
    with ModelServer([Turn(change=set_calls(call)), Turn("End")]) as server:
        await run("x", model=server.model("openai-chat"), tools=add)
    assert results("openai-chat", server.requests[-1]) == [("a", "3", False)]


async def test_ids_of_gemini_are_repeated_where_there_are_some():
    def change(body):
        body["candidates"][0]["content"]["parts"][0]["functionCall"]["id"] = "fc_1"

    with ModelServer([Turn(calls=(CALL, ("add", {"a": 2, "b": 2})), change=change), Turn("End")]) as server:
        await run("x", model=server.model("gemini"), tools=add)
    first, second = [part["functionResponse"] for part in server.requests[-1]["contents"][-1]["parts"]]
    assert first == {"id": "fc_1", "name": "add", "response": {"output": "3"}}
    assert second == {"name": "add", "response": {"output": "4"}}


async def test_calls_of_gemini_may_have_no_arguments():
    def now() -> str:
        return "noon"

    def change(body):
        del body["candidates"][0]["content"]["parts"][0]["functionCall"]["args"]

    with ModelServer([Turn(calls=(("now", {}),), change=change), Turn("End")]) as server:
        await run("x", model=server.model("gemini"), tools=now)
    assert results("gemini", server.requests[-1]) == [("now", "noon", False)]


def without_reason(body):
    for choice in body.get("choices", body.get("candidates", [])):
        choice.pop("finish_reason", None)
        choice.pop("finishReason", None)
    body.pop("stop_reason", None)


FINISH = {"openai-chat": "stop", "anthropic": "end_turn", "gemini": "STOP", "json-prompt": "stop"}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("missing", [False, True], ids=["stop", "missing"])
async def test_calls_are_made_whatever_the_finish_reason_beside_them_is(dialect, missing):
    turn = Turn(calls=(CALL,), finish=FINISH.get(dialect))
    turns = script(dialect, turn, Turn("End"))
    for each in turns if missing else ():
        each.change = without_reason
    with ModelServer(turns) as server:
        result = await run("x", model=server.model(dialect), tools=add)
    assert (result.text, result.stopped) == ("End", "done")
    assert [one[1:] for one in results(dialect, server.requests[-1])] == [("3", False)]


def without_content(body):
    if "choices" in body:
        del message(body)["content"]
    elif "candidates" in body:
        del body["candidates"][0]["content"]
    else:
        body["output" if "output" in body else "content"] = []


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_empty_responses_end_the_run_and_their_history_can_be_continued(dialect):
    with ModelServer([Turn(change=without_content), Turn("End")]) as server:
        model = server.model(dialect)
        result = await run("x", model=model)
        assert (result.text, result.stopped, result.iterations) == ("", "done", 1)
        await run("y", model=model, history=result.history)
    sent = server.requests[-1]
    for entry in sent.get("messages", sent.get("contents", [])):
        assert "content" in entry or entry["parts"]


@pytest.mark.parametrize("body", [{"choices": []}, {"choices": None}, {"error": {"message": "overloaded"}}])
async def test_a_response_without_a_choice_is_an_error(body):
    def change(answer):
        answer.clear()
        answer.update(body)

    with ModelServer([Turn(change=change)]) as server, pytest.raises(RuntimeError, match="has no choice"):
        await run("x", model=server.model("openai-chat"))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_usage_is_the_sum_of_all_requests(dialect):
    with ModelServer(script(dialect, Turn(calls=(CALL,)), Turn(calls=(CALL,)), Turn("End"))) as server:
        result = await run("x", model=server.model(dialect), tools=add)
    assert result.usage == Usage(30, 15)


@pytest.mark.parametrize("dialect", NATIVE)
async def test_usage_that_is_missing_counts_nothing(dialect):
    def change(body):
        body.pop("usage", None)
        body.pop("usageMetadata", None)

    with ModelServer([Turn(calls=(CALL,)), Turn("End", change=change)]) as server:
        result = await run("x", model=server.model(dialect), tools=add)
    assert (result.text, result.usage) == ("End", Usage(10, 5))

"""What models and the SDKs of their providers send, as it is read: dialect, calls and repairs."""

import json

import pytest

from app.agents.tool_calls.arguments import ENCODED_TWICE, FENCE, NULL, TRAILING_COMMA
from app.agents.tool_calls.model import ArgumentError
from app.agents.tool_calls.readers import read_intake
from app.core.errors import InvalidInput
from tests.harness.cases import for_each

LIMIT = 400_000


def function(name="t", arguments='{"n":1}', **fields):
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}} | fields


def chat(message, finish="tool_calls"):
    return {"choices": [{"finish_reason": finish, "message": {"role": "assistant", **message}}]}


TWO_CALLS = [function(), function("u", "{}", id="c2")]
USE = {"type": "tool_use", "id": "toolu_1", "name": "t", "input": {"n": 1}}
ITEM = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "t",
    "arguments": '{"n":1}',
    "status": "completed",
}
PART = {"functionCall": {"name": "t", "args": {"n": 1}}, "thoughtSignature": "s=="}
TOOL_USE = {"toolUse": {"toolUseId": "tu1", "name": "t", "input": {"n": 1}}}
LC = {"name": "t", "args": {"n": 1}, "id": "c1", "type": "tool_call"}
SDK = {"type": "tool-call", "toolCallId": "c1", "toolName": "t", "input": {"n": 1}}
RPC = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "t", "arguments": {"n": 1}}}
ONE = [("t", {"n": 1})]
TWO = [("t", {"n": 1}), ("u", {})]

# (id, what the client sends, dialect, the names and arguments, the ids)
SHAPES = [
    ("chat-response", chat({"tool_calls": TWO_CALLS}), "openai-chat", TWO, ["c1", "c2"]),
    (
        "chat-message",
        {"role": "assistant", "content": None, "tool_calls": TWO_CALLS},
        "openai-chat",
        TWO,
        ["c1", "c2"],
    ),
    ("chat-list", TWO_CALLS, "openai-chat", TWO, ["c1", "c2"]),
    ("chat-one-call", function(), "openai-chat", ONE, ["c1"]),
    ("chat-stop-beside-calls", chat({"tool_calls": [function()]}, "stop"), "openai-chat", ONE, ["c1"]),
    ("chat-no-calls", chat({"content": "Hi"}, "stop"), "openai-chat", [], []),
    ("chat-null-calls", chat({"content": "Hi", "tool_calls": None}, "stop"), "openai-chat", [], []),
    (
        "chat-legacy",
        chat({"function_call": {"name": "t", "arguments": '{"n":1}'}}),
        "openai-chat",
        ONE,
        ["call_0"],
    ),
    (
        "chat-custom",
        chat({"tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "t", "input": '{"n":1}'}}]}),
        "openai-chat",
        ONE,
        ["c1"],
    ),
    ("chat-missing-id", [function(id=None, arguments="{}")], "openai-chat", [("t", {})], ["call_0"]),
    (
        "responses-response",
        {
            "object": "response",
            "status": "completed",
            "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, ITEM],
        },
        "openai-responses",
        ONE,
        ["c1"],
    ),
    (
        "responses-message-only",
        {"object": "response", "output": [{"type": "message", "role": "assistant", "content": []}]},
        "openai-responses",
        [],
        [],
    ),
    (
        "responses-items",
        [{"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}, ITEM],
        "openai-responses",
        ONE,
        ["c1"],
    ),
    ("responses-item", ITEM, "openai-responses", ONE, ["c1"]),
    (
        "responses-custom",
        {"type": "custom_tool_call", "call_id": "c1", "name": "t", "input": '{"n":1}'},
        "openai-responses",
        ONE,
        ["c1"],
    ),
    ("responses-namespace", {**ITEM, "namespace": "crm"}, "openai-responses", ONE, ["c1"]),
    (
        "anthropic-message",
        {
            "type": "message",
            "role": "assistant",
            "stop_reason": "tool_use",
            "content": [
                {"type": "thinking", "thinking": "...", "signature": "s"},
                {"type": "text", "text": "I look."},
                USE,
            ],
        },
        "anthropic",
        ONE,
        ["toolu_1"],
    ),
    ("anthropic-turn", {"role": "assistant", "content": [USE]}, "anthropic", ONE, ["toolu_1"]),
    ("anthropic-blocks", [{"type": "text", "text": "I look."}, USE], "anthropic", ONE, ["toolu_1"]),
    ("anthropic-block", {**USE, "caller": {"type": "direct"}}, "anthropic", ONE, ["toolu_1"]),
    (
        "anthropic-server-tool",
        {
            "type": "message",
            "stop_reason": "pause_turn",
            "content": [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}],
        },
        "anthropic",
        [],
        [],
    ),
    ("anthropic-input-as-text", {**USE, "input": '{"n":1}'}, "anthropic", ONE, ["toolu_1"]),
    (
        "gemini-response",
        {
            "candidates": [
                {"finishReason": "STOP", "content": {"role": "model", "parts": [{"text": "I look."}, PART]}}
            ]
        },
        "gemini",
        ONE,
        ["call_0"],
    ),
    (
        "gemini-python-names",
        {
            "candidates": [
                {
                    "finish_reason": "STOP",
                    "content": {"parts": [{"function_call": {"id": "g1", "name": "t", "args": {"n": 1}}}]},
                }
            ]
        },
        "gemini",
        ONE,
        ["g1"],
    ),
    ("gemini-content", {"role": "model", "parts": [PART]}, "gemini", ONE, ["call_0"]),
    ("gemini-parts", [PART, PART], "gemini", ONE * 2, ["call_0", "call_1"]),
    ("gemini-without-args", {"functionCall": {"name": "t"}}, "gemini", [("t", {})], ["call_0"]),
    ("gemini-blocked", {"candidates": [{"finishReason": "SAFETY"}]}, "gemini", [], []),
    (
        "bedrock-response",
        {
            "stopReason": "tool_use",
            "output": {"message": {"role": "assistant", "content": [{"text": "I look."}, TOOL_USE]}},
        },
        "bedrock",
        ONE,
        ["tu1"],
    ),
    ("bedrock-message", {"role": "assistant", "content": [TOOL_USE]}, "bedrock", ONE, ["tu1"]),
    ("bedrock-blocks", [TOOL_USE], "bedrock", ONE, ["tu1"]),
    ("bedrock-inner", TOOL_USE["toolUse"], "bedrock", ONE, ["tu1"]),
    (
        "cohere-response",
        {
            "id": "x",
            "finish_reason": "TOOL_CALL",
            "message": {"role": "assistant", "tool_plan": "I look.", "tool_calls": [function()]},
        },
        "cohere",
        ONE,
        ["c1"],
    ),
    (
        "ollama-response",
        {
            "model": "m",
            "done": True,
            "done_reason": "stop",
            "message": {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "t", "arguments": {"n": 1}}}],
            },
        },
        "ollama",
        ONE,
        ["call_0"],
    ),
    (
        "ollama-message",
        {"role": "assistant", "tool_calls": [{"function": {"name": "t", "arguments": {"n": 1}}}]},
        "ollama",
        ONE,
        ["call_0"],
    ),
    ("ai-sdk-result", {"finishReason": "tool-calls", "toolCalls": [SDK]}, "ai-sdk", ONE, ["c1"]),
    (
        "ai-sdk-message",
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, SDK]},
        "ai-sdk",
        ONE,
        ["c1"],
    ),
    (
        "ai-sdk-version-4",
        [{"type": "tool-call", "toolCallId": "c1", "toolName": "t", "args": {"n": 1}}],
        "ai-sdk",
        ONE,
        ["c1"],
    ),
    (
        "langchain-message",
        {"type": "ai", "content": "", "tool_calls": [LC], "invalid_tool_calls": []},
        "langchain",
        ONE,
        ["c1"],
    ),
    (
        "langchain-wrapped",
        {"type": "ai", "data": {"content": "", "tool_calls": [LC]}},
        "langchain",
        ONE,
        ["c1"],
    ),
    (
        "langchain-dumped",
        {"lc": 1, "type": "constructor", "id": ["langchain"], "kwargs": {"content": "", "tool_calls": [LC]}},
        "langchain",
        ONE,
        ["c1"],
    ),
    ("langchain-calls", [LC], "langchain", ONE, ["c1"]),
    ("mcp-request", RPC, "mcp", ONE, [7]),
    ("mcp-batch", [RPC, {**RPC, "id": "b", "params": {"name": "u"}}], "mcp", TWO, [7, "b"]),
    ("utcp", {"tool_name": "t", "arguments": {"n": 1}}, "utcp", ONE, ["call_0"]),
    (
        "utcp-list",
        [{"name": "t", "arguments": {"n": 1}}, {"name": "u", "arguments": {}}],
        "utcp",
        TWO,
        ["call_0", "call_1"],
    ),
    (
        "prompt-text",
        'I look. {"tool_name": "t", "arguments": {"n": 1}} Then I wait.',
        "json-prompt",
        ONE,
        ["call_0"],
    ),
    (
        "prompt-fence",
        '```json\n{"arguments": {"n": 1}, "tool_name": "t"}\n```',
        "json-prompt",
        ONE,
        ["call_0"],
    ),
    ("prompt-no-call", "I cannot {do} that.", "json-prompt", [], []),
    (
        "prompt-first-of-two",
        '{"tool_name": "t", "arguments": {"n": 1}} {"tool_name": "u", "arguments": {}}',
        "json-prompt",
        ONE,
        ["call_0"],
    ),
]


@for_each(("body", "dialect", "calls", "ids"), [pytest.param(*shape[1:], id=shape[0]) for shape in SHAPES])
def test_each_shape_is_recognised_and_read(body, dialect, calls, ids) -> None:
    intake = read_intake(body, None, limit=LIMIT)
    assert intake.dialect == dialect
    assert [(call.name, call.arguments) for call in intake.calls] == calls
    assert [call.id for call in intake.calls] == ids
    assert read_intake(body, intake.dialect, limit=LIMIT) == intake


@for_each(("body", "dialect", "calls", "ids"), [pytest.param(*shape[1:], id=shape[0]) for shape in SHAPES])
def test_positions_are_pointers_to_the_calls_in_the_request(body, dialect, calls, ids) -> None:
    for call in read_intake(body, None, limit=LIMIT).calls:
        found = body
        for key in call.position.split("/")[1:]:
            found = found[int(key)] if isinstance(found, list) else found[key]
        assert call.name in json.dumps(found)


def test_mistral_takes_arguments_as_text_or_object() -> None:
    body = {"role": "assistant", "tool_calls": [function(), function(arguments={"n": 1}, id="c2")]}
    intake = read_intake(body, "mistral", limit=LIMIT)
    assert [call.arguments for call in intake.calls] == [{"n": 1}, {"n": 1}]


def test_a_prompt_is_found_in_the_response_of_any_provider() -> None:
    text = '{"tool_name": "t", "arguments": {"n": 1}}'
    for body in (
        chat({"content": text}),
        {"content": [{"type": "text", "text": "I look."}, {"type": "text", "text": text}]},
        {"candidates": [{"content": {"parts": [{"text": text}]}}]},
        {"output": {"message": {"content": [{"text": text}]}}},
        {"message": {"role": "assistant", "content": text}},
    ):
        (call,) = read_intake(body, "json-prompt", limit=LIMIT).calls
        assert (call.name, call.arguments) == ("t", {"n": 1})


@for_each(
    ("text", "arguments", "repairs"),
    [
        pytest.param('{"n": 1.10}', None, (), id="valid"),
        pytest.param("", {}, ("The arguments were empty, and read as {}.",), id="empty"),
        pytest.param(" \n", {}, ("The arguments were empty, and read as {}.",), id="white-space"),
        pytest.param("null", {}, (NULL,), id="null"),
        pytest.param('```json\n{"n": 1}\n```', {"n": 1}, (FENCE,), id="fence"),
        pytest.param('```\n{"n": 1}```', {"n": 1}, (FENCE,), id="fence-without-language"),
        pytest.param('"{\\"n\\": 1}"', {"n": 1}, (ENCODED_TWICE,), id="encoded-twice"),
        pytest.param('{"n": [1, 2,],}', {"n": [1, 2]}, (TRAILING_COMMA,), id="trailing-commas"),
        pytest.param('{"s": "a,}",}', {"s": "a,}"}, (TRAILING_COMMA,), id="comma-in-a-string-stays"),
        pytest.param('```json\n{"n": 1,}\n```', {"n": 1}, (FENCE, TRAILING_COMMA), id="fence-and-comma"),
        pytest.param('"{\\"n\\": 1,}"', {"n": 1}, (ENCODED_TWICE, TRAILING_COMMA), id="encoded-twice-and-comma"),
    ],
)  # fmt: skip
def test_a_text_is_repaired_only_where_one_reading_is_possible_and_says_so(text, arguments, repairs) -> None:
    (call,) = read_intake([function(arguments=text)], None, limit=LIMIT).calls
    expected = {"n": call.arguments["n"]} if arguments is None else arguments
    assert (call.arguments, call.repairs) == (expected, repairs)


@for_each(
    "text",
    [
        pytest.param("```" + " " * 200_000 + "x", id="blanks-in-a-fence"),
        pytest.param("```" + "\n" * 200_000 + "x", id="lines-in-a-fence"),
        pytest.param('{"a' + '\\"' * 100_000, id="quotes-in-a-string-without-its-end"),
        pytest.param("{" + ", " * 100_000, id="commas"),
        pytest.param(
            "{" + '"a": 1, ' + ", ".join(f'"{n}": 1' for n in range(50_000)) + ', "a": 1}', id="names"
        ),
    ],
)
def test_a_long_text_takes_time_in_proportion_to_its_length(text) -> None:
    # With a square of its length, each of these would take minutes.
    (call,) = read_intake([function(arguments=text)], None, limit=LIMIT).calls
    assert isinstance(call.arguments, ArgumentError)


@for_each(
    ("text", "detail"),
    [
        pytest.param('{"n": 1', "line 1, column 8", id="cut"),
        pytest.param("{n: 1}", "line 1, column 2", id="bare-name"),
        pytest.param("{'n': 1}", "double quotes", id="single-quotes"),
        pytest.param('{"n": 1} {"n": 2}', "not valid JSON", id="two-objects"),
        pytest.param(
            '{"n": 1, "n": 2}', "more than once, so that one of the values would be lost: /n.", id="repeated"
        ),
        pytest.param('{"a": [{"b": 1, "b": 1}]}', "/a/0/b", id="repeated-inside"),
        pytest.param('{"a": ":", "a": "::"}', "/a", id="repeated-with-colons"),
        pytest.param('{"a": "\\u003a", "a": 1}', "/a", id="repeated-with-an-escaped-colon"),
        pytest.param(
            '{"a": "\\u003A\\u003A", "b:": {"a": 1, "a": "\\u003A"}}', "/b:/a", id="repeated-inside-escaped"
        ),
        pytest.param("[1]", "are a list", id="list"),
        pytest.param('"text"', "not valid JSON", id="text"),
        pytest.param('"\\"\\\\\\"{}\\\\\\"\\""', "are a string", id="encoded-three-times"),
        pytest.param("42", "are a number", id="number"),
        pytest.param('{"n": 123456789012345678901234567890}', "/n", id="large-integer"),
        pytest.param("[" * 2000, "nested too deeply", id="deep"),
        pytest.param("\ud800", "surrogate", id="surrogate"),
    ],
)
def test_what_is_ambiguous_is_an_error_for_the_model(text, detail) -> None:
    (call,) = read_intake([function(arguments=text)], None, limit=LIMIT).calls
    assert isinstance(call.arguments, ArgumentError)
    assert detail in call.arguments.detail
    assert call.repairs == ()


@for_each(
    ("body", "cut"),
    [
        pytest.param(chat({"tool_calls": [function()]}, "length"), "length", id="chat"),
        pytest.param({"object": "response", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [ITEM]}, "max_output_tokens", id="responses"),
        pytest.param({"stop_reason": "max_tokens", "content": [USE]}, "max_tokens", id="anthropic"),
        pytest.param({"candidates": [{"finishReason": "MAX_TOKENS", "content": {"parts": [PART]}}]}, "MAX_TOKENS", id="gemini"),
        pytest.param({"stopReason": "max_tokens", "output": {"message": {"content": [TOOL_USE]}}}, "max_tokens", id="bedrock"),
        pytest.param({"finish_reason": "MAX_TOKENS", "message": {"tool_calls": [function()]}}, "MAX_TOKENS", id="cohere"),
        pytest.param({"done": True, "done_reason": "length", "message": {"tool_calls": [function()]}}, "length", id="ollama"),
        pytest.param({"finishReason": "length", "toolCalls": [SDK]}, "length", id="ai-sdk"),
        pytest.param({"type": "ai", "content": "", "tool_calls": [LC], "response_metadata": {"stop_reason": "max_tokens"}}, "max_tokens", id="langchain"),
    ],
)  # fmt: skip
def test_calls_of_an_output_that_was_cut_have_no_arguments(body, cut) -> None:
    intake = read_intake(body, None, limit=LIMIT)
    assert intake.cut == cut
    assert [isinstance(call.arguments, ArgumentError) for call in intake.calls] == [True]
    assert cut in intake.calls[0].arguments.detail


def test_an_item_that_is_incomplete_is_not_called_while_others_are() -> None:
    body = [ITEM, {**ITEM, "call_id": "c2", "status": "incomplete"}]
    first, second = read_intake(body, None, limit=LIMIT).calls
    assert first.arguments == {"n": 1}
    assert isinstance(second.arguments, ArgumentError)


def test_invalid_calls_of_langchain_are_answered_too() -> None:
    broken = {"name": "u", "args": '{"n": ', "id": "c2", "error": "...", "type": "invalid_tool_call"}
    body = {"type": "ai", "content": "", "tool_calls": [LC], "invalid_tool_calls": [broken]}
    first, second = read_intake(body, None, limit=LIMIT).calls
    assert (first.id, second.id) == ("c1", "c2")
    assert isinstance(second.arguments, ArgumentError)


def test_a_call_without_a_name_is_an_error_of_that_call() -> None:
    (call,) = read_intake([{"id": "c1", "type": "function", "function": {}}], None, limit=LIMIT).calls
    assert (call.id, call.name) == ("c1", "")
    assert isinstance(call.arguments, ArgumentError)


@for_each(
    ("body", "dialect", "at"),
    [
        pytest.param({}, None, "", id="nothing"),
        pytest.param(None, None, "", id="null"),
        pytest.param(5, None, "", id="number"),
        pytest.param({"choices": []}, None, "/choices", id="no-choice"),
        pytest.param({"choices": [{}]}, "openai-chat", "/choices/0/function", id="no-message"),
        pytest.param({"tool_calls": 5}, "openai-chat", "/tool_calls", id="calls-no-list"),
        pytest.param({"tool_calls": [5]}, "openai-chat", "/tool_calls/0", id="call-no-object"),
        pytest.param({"output": {}}, "bedrock", "/output/message", id="no-bedrock-message"),
        pytest.param({"method": "tools/list"}, "mcp", "/method", id="other-method"),
        pytest.param([], "json-prompt", "", id="no-text"),
    ],
)
def test_another_shape_is_rejected_with_a_pointer(body, dialect, at) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_intake(body, dialect, limit=LIMIT)
    assert [one.pointer for one in caught.value.errors] == [at]


@for_each("body", [pytest.param(shape[1], id=shape[0]) for shape in SHAPES])
def test_reading_does_not_change_what_is_repeated(body) -> None:
    before = json.dumps(body)
    intake = read_intake(body, None, limit=LIMIT)
    assert json.dumps(body) == before
    assert all(
        json.dumps(item) in before or intake.dialect in ("anthropic", "json-prompt") for item in intake.turn
    )


def test_colons_in_names_and_texts_are_no_repetition() -> None:
    text = '{"a:b": "c:d", "e": ["f:", {"g": "\\u003a"}], "h": "{\\"i\\": 1}"}'
    (call,) = read_intake([function(arguments=text)], None, limit=LIMIT).calls
    assert call.arguments == json.loads(text)

"""The messages of each dialect: one result for each call, in the form that the provider takes."""

import base64
import json
from typing import Any, get_args

import orjson
import pytest

from app.agents.tool_calls.answers import result_messages, result_part
from app.agents.tool_calls.model import CallAnswer, ToolCall
from app.agents.tool_calls.query import DIALECTS
from app.calls.results import Media, ModelResult
from app.formats.dialects.dialects import Format
from tests.harness.cases import for_each

PNG, PDF = Media("image/png", b"png"), Media("application/pdf", b"pdf")
PNG64, PDF64 = (base64.b64encode(media.data).decode() for media in (PNG, PDF))


def answer(result: ModelResult, *, call_id: Any = "c1", index: int = 0, **fields: Any) -> CallAnswer:
    return CallAnswer(ToolCall(call_id, "t", {}, "", index, **fields), result)


def written(dialect, *answers):
    return json.loads(orjson.dumps(result_messages(dialect, answers)))


JSON = ModelResult('{"a": 1}', body=b'{"a": 1}')
FAILED = ModelResult("HTTP 404 from p", is_error=True, body=b"{}")

CASES = [
    ("openai-chat", JSON, [{"role": "tool", "tool_call_id": "c1", "content": '{"a": 1}'}]),
    ("openai-chat", FAILED, [{"role": "tool", "tool_call_id": "c1", "content": "Error: HTTP 404 from p"}]),
    ("mistral", JSON, [{"role": "tool", "tool_call_id": "c1", "name": "t", "content": '{"a": 1}'}]),
    ("cohere", JSON, [{"role": "tool", "tool_call_id": "c1", "content": '{"a": 1}'}]),
    ("ollama", FAILED, [{"role": "tool", "tool_name": "t", "content": "Error: HTTP 404 from p"}]),
    ("openai-responses", JSON, [{"type": "function_call_output", "call_id": "c1", "output": '{"a": 1}'}]),
    ("anthropic", JSON, [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": '{"a": 1}'}]}]),
    ("anthropic", FAILED, [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "HTTP 404 from p", "is_error": True}]}]),
    ("gemini", JSON, [{"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "t", "response": {"output": {"a": 1}}}}]}]),
    ("gemini", FAILED, [{"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "t", "response": {"error": "HTTP 404 from p"}}}]}]),
    ("bedrock", JSON, [{"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"json": {"a": 1}}], "status": "success"}}]}]),
    ("bedrock", FAILED, [{"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "HTTP 404 from p"}], "status": "error"}}]}]),
    ("ai-sdk", JSON, [{"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "t", "output": {"type": "json", "value": {"a": 1}}}]}]),
    ("ai-sdk", FAILED, [{"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "t", "output": {"type": "error-text", "value": "HTTP 404 from p"}}]}]),
    ("langchain", FAILED, [{"role": "tool", "content": "HTTP 404 from p", "tool_call_id": "c1", "name": "t", "status": "error"}]),
    ("mcp", FAILED, [{"jsonrpc": "2.0", "id": "c1", "result": {"content": [{"type": "text", "text": "HTTP 404 from p"}], "isError": True}}]),
    ("utcp", JSON, [{"tool_name": "t", "id": "c1", "result": {"a": 1}}]),
    ("utcp", FAILED, [{"tool_name": "t", "id": "c1", "error": "HTTP 404 from p"}]),
    ("json-prompt", JSON, [{"role": "user", "content": 'The tool t returned:\n{"a": 1}'}]),
    ("json-prompt", FAILED, [{"role": "user", "content": "The tool t failed:\nHTTP 404 from p"}]),
]  # fmt: skip


@for_each(
    ("dialect", "result", "messages"),
    [pytest.param(*case, id=f"{case[0]}-{'error' if case[1].is_error else 'json'}") for case in CASES],
)
def test_a_result_has_the_form_of_its_dialect(dialect, result, messages) -> None:
    assert written(dialect, answer(result)) == messages


GROUPED = ("anthropic", "gemini", "bedrock", "ai-sdk")
SINGLE = (
    "openai-chat",
    "openai-responses",
    "mistral",
    "cohere",
    "ollama",
    "langchain",
    "mcp",
    "utcp",
    "json-prompt",
)


@for_each("dialect", [*GROUPED, *SINGLE])
def test_results_are_in_the_order_of_the_calls_and_an_answered_id_has_no_second(dialect) -> None:
    first, second = (answer(ModelResult(text), call_id=text, index=n) for n, text in enumerate("ab"))
    repeated = answer(ModelResult("x"), call_id="a", index=2)
    repeated.repeats = True
    messages = written(dialect, first, second, repeated)
    assert len(messages) == (1 if dialect in GROUPED else 2)
    text = json.dumps(messages)
    assert text.index('"a"') < text.index('"b"') if dialect not in ("ollama", "json-prompt") else "a" in text
    assert '"x"' not in text
    parts = messages[0].get("content", messages[0].get("parts")) if dialect in GROUPED else messages
    assert parts == json.loads(orjson.dumps([result_part(dialect, one) for one in (first, second)]))


@for_each("dialect", [*GROUPED, *SINGLE])
def test_without_calls_there_is_no_message(dialect) -> None:
    assert result_messages(dialect, []) == []


def test_images_and_documents_where_a_dialect_takes_them() -> None:
    result = ModelResult("(image)", media=(PNG, PDF))
    (block,) = written("anthropic", answer(result))[0]["content"]
    assert [(one["type"], one["source"]["data"]) for one in block["content"][1:]] == [
        ("image", PNG64),
        ("document", PDF64),
    ]
    (item,) = written("openai-responses", answer(result))
    assert item["output"][1:] == [
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG64}", "detail": "auto"},
        {"type": "input_file", "filename": "result.pdf", "file_data": f"data:application/pdf;base64,{PDF64}"},
    ]
    (part,) = written("gemini", answer(result))[0]["parts"]
    assert [one["inlineData"]["data"] for one in part["functionResponse"]["parts"]] == [PNG64, PDF64]
    (block,) = written("bedrock", answer(result))[0]["content"]
    assert block["toolResult"]["content"][1:] == [
        {"image": {"format": "png", "source": {"bytes": PNG64}}},
        {"document": {"format": "pdf", "name": "result-2", "source": {"bytes": PDF64}}},
    ]
    (message,) = written("langchain", answer(result))
    assert message["content"][1] == {"type": "image", "base64": PNG64, "mime_type": "image/png"}
    assert "takes no application/pdf" in message["content"][0]["text"]
    (reply,) = written("mcp", answer(result))
    assert [one["type"] for one in reply["result"]["content"]] == ["text", "image", "resource"]
    (message,) = written("ai-sdk", answer(result))
    assert [one["type"] for one in message["content"][0]["output"]["value"]] == [
        "text",
        "image-data",
        "file-data",
    ]


@for_each("dialect", ["openai-chat", "mistral", "cohere", "ollama", "utcp", "json-prompt"])
def test_a_dialect_of_texts_says_what_it_does_not_show(dialect) -> None:
    assert "takes no image/png" in json.dumps(written(dialect, answer(ModelResult("(image)", media=(PNG,)))))


def test_ids_that_were_made_up_are_left_out_where_the_dialect_has_none() -> None:
    (message,) = written("gemini", answer(JSON, call_id="call_0", has_id=False))
    assert "id" not in message["parts"][0]["functionResponse"]
    assert "id" not in written("utcp", answer(JSON, call_id="call_0", has_id=False))[0]
    assert written("mcp", answer(JSON, call_id=7))[0]["id"] == 7


def test_the_other_kinds_of_calls_of_openai() -> None:
    assert written("openai-chat", answer(JSON, shape="legacy"))[0]["role"] == "function"
    assert written("openai-responses", answer(JSON, shape="custom"))[0]["type"] == "custom_tool_call_output"


@for_each("dialect", [*GROUPED, *SINGLE])
def test_notes_reach_the_model_in_every_dialect(dialect) -> None:
    result = ModelResult('{"a": 1}', body=b'{"a": 1}')
    result.add_notes(["Cut after 3 items."])
    assert "Cut after 3 items." in json.dumps(written(dialect, answer(result)))


def test_json_that_is_no_object_is_text_for_bedrock_and_output_for_gemini() -> None:
    result = ModelResult("[1, 2.50]", body=b"[1, 2.50]")
    (block,) = written("bedrock", answer(result))[0]["content"]
    assert block["toolResult"]["content"] == [{"text": "[1, 2.50]"}]
    assert b'"output":[1, 2.50]' in orjson.dumps(result_messages("gemini", [answer(result)]))


def test_each_format_of_exports_has_a_dialect_of_calls() -> None:
    assert set(DIALECTS) == set(get_args(Format))

"""Tools of a gateway in the loop: what its client is asked for, and what becomes of its messages."""

import asyncio
import json

import pytest
from model_peers import ModelServer, Turn, results

from utcp_gateway_client.loop import CallFinished, GatewayTools, Hooks, Limits, run, stream
from utcp_gateway_client.tools import ToolCollection

DIALECTS = ("openai-chat", "openai-responses", "anthropic", "gemini", "json-prompt")
SCHEMA = {"type": "object", "properties": {"value": {"type": "string"}}}
VOLUME = {"key_type": "isbn", "value": "9780140328721", "format": "json"}


class Library:
    """A client with a tool for volumes of the Open Library, in the forms in which a gateway has it."""

    def __init__(self, name="openlibrary_volumes"):
        self.name = name
        self.asked = []
        self.bodies = []

    async def tools(self, query_or_names, /, *, format):
        self.asked.append((query_or_names, format))
        member = {"name": self.name, "description": "A volume by its ISBN"}
        if format == "openai-chat":
            return [{"type": "function", "function": member | {"parameters": SCHEMA}}]
        if format == "openai-responses":
            return [{"type": "function", **member, "parameters": SCHEMA, "strict": False}]
        if format == "anthropic":
            return [member | {"input_schema": SCHEMA}]
        if format == "gemini":
            return [{"functionDeclarations": [member | {"parametersJsonSchema": SCHEMA}]}]
        return [member | {"parameters": SCHEMA}]

    async def run(self, message, /, *, format):
        self.bodies.append(message)
        if format == "openai-chat":
            return [
                self._chat(call["id"], json.loads(call["function"]["arguments"]))
                for call in message["tool_calls"]
            ]
        if format == "openai-responses":
            return [
                {
                    "type": "function_call_output",
                    "call_id": call["call_id"],
                    "output": self._flagged(json.loads(call["arguments"])),
                }
                for call in message
            ]
        if format == "anthropic":
            return [{"role": "user", "content": [self._block(call) for call in message["content"]]}]
        if format == "gemini":
            return [
                {"role": "user", "parts": [self._part(part["functionCall"]) for part in message["parts"]]}
            ]
        call = json.loads(message["text"])
        outcome = "returned" if "value" in call["arguments"] else "failed"
        return [
            {"role": "user", "content": f"The tool {self.name} {outcome}:\n{self._text(call['arguments'])}"}
        ]

    def _text(self, arguments):
        return f"Volume {arguments['value']}" if "value" in arguments else "/value is missing"

    def _flagged(self, arguments):
        return ("" if "value" in arguments else "Error: ") + self._text(arguments)

    def _chat(self, one, arguments):
        return {"role": "tool", "tool_call_id": one, "content": self._flagged(arguments)}

    def _block(self, call):
        block = {"type": "tool_result", "tool_use_id": call["id"], "content": self._text(call["input"])}
        return block if "value" in call["input"] else block | {"is_error": True}

    def _part(self, function):
        kind = "output" if "value" in function["args"] else "error"
        return {
            "functionResponse": {"name": function["name"], "response": {kind: self._text(function["args"])}}
        }


def call_text(name, arguments):
    return f"Let me see: {json.dumps({'tool_name': name, 'arguments': arguments})}"


def add(a: int, b: int) -> int:
    return a + b


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_prompt_is_searched_and_the_found_tool_called(dialect):
    library = Library()
    turn = Turn(calls=(("openlibrary_volumes", VOLUME),))
    if dialect == "json-prompt":
        turn = Turn(call_text("openlibrary_volumes", VOLUME))
    with ModelServer([turn, Turn("It is Matilda.")]) as server:
        result = await run("Which book has ISBN 9780140328721?", model=server.model(dialect), tools=library)
    assert result.text == "It is Matilda."
    assert library.asked == [("Which book has ISBN 9780140328721?", dialect)]
    assert "A volume by its ISBN" in json.dumps(server.requests[0])
    assert [one[1:] for one in results(dialect, server.requests[-1])] == [("Volume 9780140328721", False)]
    assert [one.preview for one in result.calls] == ["Volume 9780140328721"]


@pytest.mark.parametrize("dialect", DIALECTS[:-1])
async def test_local_and_remote_calls_of_a_turn_are_answered_in_order(dialect):
    library = Library()
    calls = (
        ("openlibrary_volumes", {"value": "1"}),
        ("add", {"a": 1, "b": 2}),
        ("openlibrary_volumes", {"valeu": "2"}),
    )
    tools = [ToolCollection([add]), GatewayTools(library, names=["openlibrary.volumes"])]
    with ModelServer([Turn(calls=calls), Turn("End")]) as server:
        events = [one async for one in stream("Both", model=server.model(dialect), tools=tools)]
    assert library.asked == [(["openlibrary.volumes"], dialect)]
    assert [one[1:] for one in results(dialect, server.requests[-1])] == [
        ("Volume 1", False),
        ("3", False),
        ("/value is missing", True),
    ]
    # The gateway gets its calls of the turn as one request.
    assert len(library.bodies) == 1
    records = [one.record for one in events if isinstance(one, CallFinished)]
    assert sorted((one.call.name, one.is_error, one.preview) for one in records) == [
        ("add", False, "3"),
        ("openlibrary_volumes", False, "Volume 1"),
        ("openlibrary_volumes", True, "/value is missing"),
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_calls_that_are_not_approved_are_not_sent(dialect):
    library = Library()
    turn = Turn(calls=(("openlibrary_volumes", VOLUME),))
    if dialect == "json-prompt":
        turn = Turn(call_text("openlibrary_volumes", VOLUME))

    async def approve(call):
        return False

    with ModelServer([turn, Turn("End")]) as server:
        await run("x", model=server.model(dialect), tools=library, hooks=Hooks(approve=approve))
    assert library.bodies == []
    assert results(dialect, server.requests[-1])[0][1:] == ("The call was not approved.", True)


class Broken(Library):
    async def run(self, message, /, *, format):
        raise ConnectionError("secret of the connection")


class Short(Library):
    async def run(self, message, /, *, format):
        return []


class Slow(Library):
    async def run(self, message, /, *, format):
        return await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("client", "text"),
    [
        (Broken(), "The gateway has failed (ConnectionError)."),
        (Short(), "The gateway has not answered each call."),
        (Slow(), "timed out after 0.05 s"),
    ],
)
async def test_a_gateway_that_fails_is_an_error_result(client, text):
    calls = (("openlibrary_volumes", VOLUME), ("openlibrary_volumes", {"value": "2"}))
    with ModelServer([Turn(calls=calls), Turn("End")]) as server:
        model = server.model("openai-chat")
        result = await run("x", model=model, tools=client, limits=Limits(call_seconds=0.05))
    assert result.text == "End"
    assert [one[1:] for one in results("openai-chat", server.requests[-1])] == [(text, True)] * 2


async def test_of_two_tools_with_one_name_the_first_is_offered(caplog):
    with ModelServer([Turn(calls=(("add", {"a": 1, "b": 2}),)), Turn("End")]) as server:
        model = server.model("openai-chat")
        await run("x", model=model, tools=[add, Library("add")])
    assert [one["function"]["name"] for one in server.requests[0]["tools"]] == ["add"]
    assert results("openai-chat", server.requests[-1])[0][1] == "3"
    assert "Two tools are called add" in caplog.text


async def test_a_search_needs_words():
    with pytest.raises(ValueError, match="name the tools"):
        await run(None, model="gpt-x", tools=Library(), history=[{"role": "user", "content": "x"}])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"tool_name": "add", "arguments": {"a": 1, "b": 2}}', ("3", False)),
        (
            '{"x": 1} then {"arguments": {"a": 1, "b": 2}, "tool_name": "add"} {"tool_name": "no"}',
            ("3", False),
        ),
        ('{"tool_name": "add"}', None),
        ('{"tool_name": "add", "arguments": {"a": 1', None),
    ],
)
async def test_the_first_json_object_with_a_tool_is_the_call(text, expected):
    with ModelServer([Turn(text), Turn("End")]) as server:
        await run("x", model=server.model("json-prompt"), tools=add)
    ((_, found, is_error),) = results("json-prompt", server.requests[-1])
    if expected is None:
        assert is_error
        assert "pointer" in found
    else:
        assert (found, is_error) == expected

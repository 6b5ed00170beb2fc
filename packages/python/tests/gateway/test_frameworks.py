"""Tools of a gateway in LangChain and Pydantic AI."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from gateway_peer import Answer, Peer, peer
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from pydantic_ai import Agent, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from utcp_gateway_client.gateway import AsyncGateway, Gateway

# The names of StructuredTool's own parameters, too.
SCHEMA = {
    "type": "object",
    "properties": {"q": {"type": "string"}, "config": {"type": "string"}, "run_manager": {"type": "integer"}},
    "required": ["q"],
}
ARGUMENTS = {"q": "sea", "config": "c", "run_manager": 1}
DEFINITION = {
    "type": "function",
    "function": {"name": "find_books", "description": "Find books.", "parameters": SCHEMA},
}
REPORT = {"tools": [], "unknown": [], "omitted": 0, "limits": []}
EXPORT = {"format": "x", "tools": [DEFINITION], "aliases": {}, "report": REPORT}


@pytest.fixture
def server() -> Iterator[Peer]:
    with peer() as running:
        running.answers.append(Answer(body=EXPORT))
        yield running


def ran(content: str, *, error: str | None = None) -> Answer:
    """The response to one tool call."""
    problem = {"type": f"urn:utcp-gateway:problem:{error}", "status": 422} if error else None
    result = {
        "id": "1", "name": "find_books", "tool": "library.find", "position": "", "is_error": error is not None,
        "repairs": [], "notes": [], "continuation": None, "call_id": None, "status": 200, "error": problem,
    }  # fmt: skip
    return Answer(body={"format": "x", "messages": [{"content": content}], "results": [result], "cut": None})


def sent(server: Peer) -> tuple[str, dict]:
    """Name and arguments of the last tool call that arrived."""
    (call,) = json.loads(server.received[-1].body)["tool_calls"]
    if "function" in call:
        return call["function"]["name"], json.loads(call["function"]["arguments"])
    return call["name"], call["args"]


def test_langchain_tools_are_structured_tools(server):
    with Gateway(server.url, "ugw_key") as gateway:
        (tool,) = gateway.langchain_tools("a book", limit=3)
        assert isinstance(tool, StructuredTool)
        assert (tool.name, tool.description, tool.args) == ("find_books", "Find books.", SCHEMA["properties"])
        assert "format=langchain" in server.received[0].path
        assert "q=a+book" in server.received[0].path
        server.answers.append(ran('{"total":1}'))
        assert tool.invoke(ARGUMENTS) == '{"total":1}'
        assert sent(server) == ("find_books", ARGUMENTS)
        # Each call has a key of its own, so that it is made once.
        assert server.received[-1].headers["idempotency-key"]


def test_langchain_step_of_a_conversation(server):
    call = {"type": "tool_call", "name": "find_books", "args": {"q": "sea"}, "id": "call_7"}
    model = GenericFakeChatModel(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("One book.")]))
    with Gateway(server.url, "ugw_key") as gateway:
        (tool,) = gateway.langchain_tools()
        messages = [HumanMessage("Find a book about the sea.")]
        messages.append(model.invoke(messages))
        server.answers += [ran("one"), ran("There is no such argument.", error="invalid-arguments")]
        answers = [tool.invoke(messages[-1].tool_calls[0]) for _ in range(2)]
    assert [type(each) for each in answers] == [ToolMessage, ToolMessage]
    assert [(each.tool_call_id, each.content, each.status) for each in answers] == [
        ("call_7", "one", "success"), ("call_7", "There is no such argument.", "error"),
    ]  # fmt: skip
    assert model.invoke([*messages, answers[0]]).content == "One book."


async def test_langchain_tools_in_async_code(server):
    server.answers += [ran("one"), Answer(body=EXPORT), ran("two")]
    async with AsyncGateway(server.url, "ugw_key") as gateway:
        (tool,) = await gateway.langchain_tools()
        assert await tool.ainvoke(ARGUMENTS) == "one"
        with pytest.raises(NotImplementedError, match="ainvoke"):
            tool.invoke(ARGUMENTS)
    with Gateway(server.url, "ugw_key") as gateway:
        (tool,) = gateway.langchain_tools()
        assert await tool.ainvoke(ARGUMENTS) == "two"
    assert sent(server) == ("find_books", ARGUMENTS)


async def respond(messages, info):
    """Call the tool, correct the arguments where that is asked for, and say what the tool has returned."""
    last = messages[-1].parts[-1]
    is_retry = isinstance(last, RetryPromptPart) or getattr(last, "outcome", "") == "retried"
    if isinstance(last, ToolReturnPart) and not is_retry:
        return ModelResponse(parts=[TextPart(f"{last.outcome}: {last.content}")])
    arguments = ARGUMENTS if is_retry else {"q": 1}
    return ModelResponse(parts=[ToolCallPart(info.function_tools[0].name, arguments)])


async def test_pydantic_ai_agent_corrects_its_arguments(server):
    server.answers += [ran("Must be a string.", error="invalid-arguments"), ran('{"total":1}')]
    with Gateway(server.url, "ugw_key") as gateway:
        agent = Agent(FunctionModel(respond), tools=gateway.pydantic_ai_tools(["find_books"]))
        assert (await agent.run("Find a book.")).output == 'success: {"total":1}'
    assert sent(server) == ("find_books", ARGUMENTS)
    assert "format=openai-chat" in server.received[0].path


async def test_pydantic_ai_agent_of_an_async_client(server):
    server.answers += [ran("HTTP 404", error="upstream-rejected")]
    async with AsyncGateway(server.url, "ugw_key") as gateway:
        agent = Agent(FunctionModel(respond), tools=await gateway.pydantic_ai_tools())
        assert (await agent.run("Find a book.")).output == "failed: HTTP 404"


async def test_pydantic_ai_model_is_given_the_schema(server):
    server.answers += [ran("one")]
    model = TestModel()
    async with AsyncGateway(server.url, "ugw_key") as gateway:
        await Agent(model, tools=await gateway.pydantic_ai_tools()).run("Find a book.")
    (definition,) = model.last_model_request_parameters.function_tools
    assert (definition.name, definition.description) == ("find_books", "Find books.")
    assert definition.parameters_json_schema["properties"] == SCHEMA["properties"]
    assert sent(server)[0] == "find_books"


@pytest.mark.parametrize(
    ("module", "extra", "method"),
    [("langchain_core", "langchain", "langchain_tools"), ("pydantic_ai", "pydantic-ai", "pydantic_ai_tools")],
)
def test_error_without_the_extra_names_it(module, extra, method):
    program = f"""
import sys
sys.modules[{module!r}] = None
from utcp_gateway_client.gateway import Gateway
try:
    Gateway("http://127.0.0.1:1").{method}()
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"pip install 'utcp-gateway-client[{extra}]'" in done.stdout, done.stderr

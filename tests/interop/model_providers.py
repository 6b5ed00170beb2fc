"""Servers with the wire formats of model providers: each question gets the calls of `CALLS`, and their results a text.

They reject what the providers reject: tools whose names, schemas or number are not within the documented subset
(provider_schemas.py); results that are missing, repeated, in another order or in another place; and members of the wrong form.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.interop.provider_schemas import PROVIDERS as SUBSETS
from tests.interop.provider_schemas import Tool, rejection

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("interop_searchBooks", {"q": "sea"}),
    ("interop_searchBooks", {"q": "sea"}),
    ("interop_searchBooks", {"limit": "many"}),
    ("interop_serchBooks", {"q": "sea"}),
)
ERRORS = (False, False, True, True)
"""Which of the results have to be errors."""
_SIGNATURE = "c2lnbmF0dXJl"


class Rejected(Exception):
    """The request is one that the provider rejects."""


def require(condition: object, text: str) -> None:
    """Raise Rejected unless the condition holds."""
    if not condition:
        raise Rejected(text)


def check_tools(provider: str, tools: list[tuple[dict[str, Any], str]]) -> None:
    """Check the tools of a request: each with the name of the member that has its schema."""
    require(tools, "The list of tools is empty.")
    for tool, _ in tools:
        require(tool["description"], "The description is empty.")
    found = rejection(
        SUBSETS[provider],
        [Tool(tool["name"], tool[schema], tool.get("strict") is True) for tool, schema in tools],
    )
    require(found is None, found or "")


def check_results(found: list[tuple[str, bool]], ids: list[str]) -> str:
    """Check ids and error flags of results; return the text of the model."""
    require([one for one, _ in found] == ids, f"Results {found} do not answer {ids}.")
    require([flag for _, flag in found] == list(ERRORS), f"The flags are {found}.")
    return f"{len(found)} results, {sum(flag for _, flag in found)} errors"


IDS = [f"call_{index}" for index in range(len(CALLS))]


def chat_calls(*, as_text: bool = True, ids: bool = True) -> list[dict[str, Any]]:
    """Return the calls in the form of chat completions."""
    return [
        {
            **({"id": one, "type": "function"} if ids else {}),
            "function": {"name": name, "arguments": json.dumps(arguments) if as_text else arguments},
        }
        for one, (name, arguments) in zip(IDS, CALLS, strict=True)
    ]


def chat_results(messages: list[dict[str, Any]], *, by: str = "tool_call_id") -> str | None:
    """Return the text for the results in a conversation of chat messages; None before there are any."""
    if len(messages) == 1:
        return None
    require(messages[1]["role"] == "assistant", "The model's message is missing.")
    require(len(messages[1]["tool_calls"]) == len(CALLS), "The calls of the model are missing.")
    results = messages[2:]
    for one in results:
        require(one["role"] == "tool", f"{one['role']} follows calls.")
        require(isinstance(one["content"], str) and one["content"], "The content is not a text.")
    names = IDS if by == "tool_call_id" else [name for name, _ in CALLS]
    return check_results([(one[by], one["content"].startswith("Error: ")) for one in results], names)


def check_functions(provider: str, body: dict[str, Any]) -> None:
    """Check tools in the form of chat completions."""
    require(all(tool["type"] == "function" for tool in body["tools"]), "Invalid value of 'tools[].type'.")
    check_tools(provider, [(tool["function"], "parameters") for tool in body["tools"]])


def openai_chat(body: dict[str, Any], provider: str = "openai-chat") -> dict[str, Any]:
    check_functions(provider, body)
    messages = body["messages"]
    text = chat_results(messages)
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if text is None:
        message["tool_calls"] = chat_calls()
    return {
        "id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop" if text else "tool_calls", "message": message, "logprobs": None}],
    }  # fmt: skip


def prompted(body: dict[str, Any]) -> dict[str, Any]:
    """The chat of OpenAI with a model without tool calling: one call in each text, until all were made."""
    require("tools" not in body, "This model does not support tools.")
    system, _, *turns = body["messages"]
    require(
        system["role"] == "system" and CALLS[0][0] in system["content"], "The system message has no tools."
    )
    results = turns[1::2]
    for one, (name, _) in zip(results, CALLS, strict=False):
        require(
            one["role"] == "user" and one["content"].startswith(f"The tool {name} "), "A result is missing."
        )
    if len(results) < len(CALLS):
        name, arguments = CALLS[len(results)]
        text = f"I call it: {json.dumps({'tool_name': name, 'arguments': arguments})}"
    else:
        flags = [" failed:\n" in one["content"] for one in results]
        text = check_results(list(zip(IDS, flags, strict=True)), IDS)
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}],
    }  # fmt: skip


def langchain(body: dict[str, Any]) -> dict[str, Any]:
    """The chat of OpenAI, whose results LangChain writes: their texts have no flag, its messages have it."""
    for one, is_error in zip(body["messages"][2:], ERRORS, strict=False):
        require(not one["content"].startswith("Error: "), "The error is flagged twice.")
        one["content"] = f"Error: {one['content']}" if is_error else one["content"]
    return openai_chat(body, "langchain")


def hosted_mcp(server: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the output of a model that has an MCP server: its text says how the provider would connect."""
    known = {"type", "server_label", "server_url", "headers", "require_approval"}
    require(set(server) == known and server["type"] == "mcp", f"Unknown parameter in {sorted(server)}.")
    text = json.dumps([server["server_url"], server["headers"]["Authorization"]])
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return [{"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": content}]


def mcp_connector(body: dict[str, Any]) -> dict[str, Any]:
    """Respond as the MCP connector of Anthropic, with a text that says how it would connect."""
    (server,) = body["mcp_servers"]
    require(set(server) == {"type", "name", "url", "authorization_token"}, "Extra inputs are not permitted")
    named = [{"type": "mcp_toolset", "mcp_server_name": server["name"]}]
    require(body["tools"] == named, "MCP server is not referenced by any toolset")
    text = json.dumps([server["url"], f"Bearer {server['authorization_token']}"])
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


def openai_response(output: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a response of OpenAI's Responses."""
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": output,
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None,
        "instructions": None, "metadata": {}, "temperature": 1, "top_p": 1,
    }  # fmt: skip


def openai_responses(body: dict[str, Any]) -> dict[str, Any]:
    if body["tools"][0]["type"] == "mcp":
        return openai_response(hosted_mcp(body["tools"][0]))
    require(all("strict" in tool for tool in body["tools"]), "Missing required parameter: 'tools[].strict'.")
    check_tools("openai-responses", [(tool, "parameters") for tool in body["tools"]])
    items = body["input"]
    output: list[dict[str, Any]]
    if len(items) == 1:
        output = [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": _SIGNATURE}]
        for one, (name, arguments) in zip(IDS, CALLS, strict=True):
            output.append(
                {"type": "function_call", "id": f"fc_{one}", "call_id": one, "name": name,
                 "arguments": json.dumps(arguments), "status": "completed"}
            )  # fmt: skip
    else:
        require(
            items[1] == {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": _SIGNATURE},
            "The reasoning is missing or changed.",
        )
        results = [one for one in items if one.get("type") == "function_call_output"]
        require(items[-len(results) :] == results, "Results do not follow the calls.")
        found = [(one["call_id"], one["output"].startswith("Error: ")) for one in results]
        content = [{"type": "output_text", "text": check_results(found, IDS), "annotations": []}]
        output = [
            {"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": content}
        ]
    return openai_response(output)


def anthropic(body: dict[str, Any]) -> dict[str, Any]:
    if "mcp_servers" in body:
        return mcp_connector(body)
    check_tools("anthropic", [(tool, "input_schema") for tool in body["tools"]])
    messages = body["messages"]
    content: list[dict[str, Any]]
    if len(messages) == 1:
        content = [
            {"type": "tool_use", "id": one, "name": name, "input": arguments}
            for one, (name, arguments) in zip(IDS, CALLS, strict=True)
        ]
    else:
        require([one["role"] for one in messages] == ["user", "assistant", "user"], "Roles do not alternate.")
        results = messages[2]["content"]
        require(all(one["type"] == "tool_result" for one in results), "Results do not come first.")
        require(
            all(set(one) <= {"type", "tool_use_id", "content", "is_error"} for one in results),
            "Extra inputs are not permitted",
        )
        found = [(one["tool_use_id"], one.get("is_error", False)) for one in results]
        content = [{"type": "text", "text": check_results(found, IDS)}]
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": "tool_use" if len(messages) == 1 else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


def with_json_names(schema: Any) -> Any:
    """Return a schema of Gemini with keywords in the form of its JSON: the SDK for Python sends `any_of`, too."""
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        name = re.sub(r"_([a-z])", lambda match: match[1].upper(), key)
        if name == "properties":
            found[name] = {member: with_json_names(below) for member, below in value.items()}
        elif name == "anyOf":
            found[name] = [with_json_names(below) for below in value]
        else:
            found[name] = with_json_names(value) if name == "items" else value
    return found


def gemini(body: dict[str, Any]) -> dict[str, Any]:
    declared = body["tools"][0]["functionDeclarations"]
    # The JSON of protocol buffers may have either name, and the SDK for Python sends this one.
    # A function without parameters has no schema.
    names = ("parametersJsonSchema", "parameters_json_schema", "parameters")
    given = [[name for name in names if name in tool] for tool in declared]
    require(all(len(one) < 2 for one in given), "parameters and parametersJsonSchema are exclusive.")
    require(
        all(
            tool[one[0]] not in ({}, {"type": "OBJECT"})
            for tool, one in zip(declared, given, strict=True)
            if one
        ),
        "parameters.properties: should be non-empty for OBJECT type",
    )
    for tool in declared:
        if "parameters" in tool:
            tool["parameters"] = with_json_names(tool["parameters"])
    tools = [
        (tool, one[0]) if one else ({**tool, "parameters": {"type": "OBJECT"}}, "parameters")
        for tool, one in zip(declared, given, strict=True)
    ]
    is_openapi = any("parameters" in one for one in given)
    check_tools("gemini-openapi" if is_openapi else "gemini", tools)
    contents = body["contents"]
    parts: list[dict[str, Any]]
    if len(contents) == 1:
        parts = [{"functionCall": {"name": name, "args": arguments}} for name, arguments in CALLS]
        parts[0]["thoughtSignature"] = _SIGNATURE
    else:
        require([one["role"] for one in contents] == ["user", "model", "user"], "Roles do not alternate.")
        require(contents[1]["parts"][0].get("thoughtSignature") == _SIGNATURE, "MISSING_THOUGHT_SIGNATURE")
        responses = [part["functionResponse"] for part in contents[2]["parts"]]
        require(
            all(isinstance(one["response"], dict) and "id" not in one for one in responses), "Not a Struct."
        )
        found = [(one["name"], "error" in one["response"]) for one in responses]
        parts = [{"text": check_results(found, [name for name, _ in CALLS])}]
    return {
        "candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": parts}}]
    }


def bedrock(body: dict[str, Any]) -> dict[str, Any]:
    specs = [t["toolSpec"] for t in body["toolConfig"]["tools"]]
    check_tools("bedrock", [({**tool, "schema": tool["inputSchema"]["json"]}, "schema") for tool in specs])
    messages = body["messages"]
    content: list[dict[str, Any]]
    if len(messages) == 1:
        content = [
            {"toolUse": {"toolUseId": one, "name": name, "input": arguments}}
            for one, (name, arguments) in zip(IDS, CALLS, strict=True)
        ]
    else:
        results = [one["toolResult"] for one in messages[2]["content"]]
        require(
            all(isinstance(part.get("json", {}), dict) for one in results for part in one["content"]),
            "The JSON is no object.",
        )
        found = [(one["toolUseId"], one["status"] == "error") for one in results]
        content = [{"text": check_results(found, IDS)}]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if len(messages) == 1 else "end_turn",
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}, "metrics": {"latencyMs": 1},
    }  # fmt: skip


def mistral(body: dict[str, Any]) -> dict[str, Any]:
    results = [one for one in body["messages"] if one["role"] == "tool"]
    require([one["name"] for one in results] in ([], [name for name, _ in CALLS]), "Names are missing.")
    answer = openai_chat(body, "mistral")
    answer["choices"][0]["message"].pop("refusal")
    answer["choices"][0].pop("logprobs")
    return answer | {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}


def cohere(body: dict[str, Any]) -> dict[str, Any]:
    check_functions("cohere", body)
    text = chat_results(body["messages"])
    message: dict[str, Any] = {"role": "assistant"}
    if text is None:
        message |= {"tool_plan": "I look.", "tool_calls": chat_calls()}
    else:
        message["content"] = [{"type": "text", "text": text}]
    return {"id": "x", "finish_reason": "TOOL_CALL" if text is None else "COMPLETE", "message": message}


def ollama(body: dict[str, Any]) -> dict[str, Any]:
    check_functions("ollama", body)
    text = chat_results(body["messages"], by="tool_name")
    message: dict[str, Any] = {"role": "assistant", "content": text or ""}
    if text is None:
        message["tool_calls"] = chat_calls(as_text=False, ids=False)
    return {
        "model": "m",
        "created_at": "2026-01-01T00:00:00Z",
        "done": True,
        "done_reason": "stop",
        "message": message,
    }


PROVIDERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "/openai/chat/completions": openai_chat,
    "/openai/responses": openai_responses,
    "/langchain/chat/completions": langchain,
    "/prompt/chat/completions": prompted,
    "/anthropic/v1/messages": anthropic,
    "/gemini/v1beta/models/m:generateContent": gemini,
    "/bedrock/model/m/converse": bedrock,
    "/mistral/v1/chat/completions": mistral,
    "/cohere/v2/chat": cohere,
    "/ollama/api/chat": ollama,
}
"""What responds at each path."""


def error_body(provider: str, text: str) -> dict[str, Any]:
    """Return an error in the form of a provider, by the first segment of its path."""
    match provider:
        case "anthropic":
            return {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
        case "gemini":
            return {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}
        case "bedrock" | "cohere":
            return {"message": text}
        case "mistral":
            return {
                "object": "error",
                "message": text,
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            }
        case "ollama":
            return {"error": text}
    code = "invalid_function_parameters" if "Invalid schema" in text else None
    return {"error": {"message": text, "type": "invalid_request_error", "param": "tools", "code": code}}


def providers() -> web.Application:
    """Return the application of all providers."""

    async def handle(request: web.Request) -> web.Response:
        provider = PROVIDERS.get(request.path)
        if provider is None:
            return web.json_response({"error": {"message": f"unknown path {request.path}"}}, status=404)
        try:
            return web.json_response(provider(await request.json()))
        except (Rejected, KeyError, TypeError) as error:
            text = str(error) if isinstance(error, Rejected) else repr(error)
            body = error_body(request.path.split("/")[1], text)
            return web.json_response(body, status=400, headers={"x-amzn-ErrorType": "ValidationException"})

    application = web.Application()
    application.router.add_post("/{path:.*}", handle)
    return application

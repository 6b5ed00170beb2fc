"""Examples of the routes for tool calls: the same call in each dialect, and its result in some of them."""

from typing import Any, Final

_NAME: Final = "library_searchBooks"
_ARGUMENTS: Final = {"q": "history"}
_TEXT: Final = '{"q":"history"}'
_CHAT_CALL: Final = {
    "id": "call_1", "type": "function", "function": {"name": _NAME, "arguments": _TEXT},
}  # fmt: skip
_CALLS: Final[dict[str, tuple[str, Any]]] = {
    "openai-chat": (
        "A chat completion",
        {
            "choices": [
                {"finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [_CHAT_CALL]}}
            ]
        },
    ),
    "openai-responses": (
        "A response of OpenAI",
        {
            "object": "response",
            "status": "completed",
            "output": [{"type": "function_call", "call_id": "call_1", "name": _NAME, "arguments": _TEXT}],
        },
    ),
    "anthropic": (
        "A message of Claude",
        {
            "role": "assistant",
            "stop_reason": "tool_use",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": _NAME, "input": _ARGUMENTS}],
        },
    ),
    "gemini": (
        "A response of Gemini",
        {
            "candidates": [
                {
                    "finishReason": "STOP",
                    "content": {
                        "role": "model",
                        "parts": [{"functionCall": {"name": _NAME, "args": _ARGUMENTS}}],
                    },
                }
            ]
        },
    ),
    "bedrock": (
        "A response of Converse",
        {
            "stopReason": "tool_use",
            "output": {
                "message": {
                    "role": "assistant",
                    "content": [{"toolUse": {"toolUseId": "t1", "name": _NAME, "input": _ARGUMENTS}}],
                }
            },
        },
    ),
    "mistral": (
        "An assistant message, with format=mistral",
        {"role": "assistant", "tool_calls": [_CHAT_CALL]},
    ),
    "cohere": (
        "A response of Cohere v2",
        {"finish_reason": "TOOL_CALL", "message": {"role": "assistant", "tool_calls": [_CHAT_CALL]}},
    ),
    "ollama": (
        "A response of Ollama",
        {
            "done": True,
            "message": {
                "role": "assistant",
                "tool_calls": [{"function": {"name": _NAME, "arguments": _ARGUMENTS}}],
            },
        },
    ),
    "ai-sdk": (
        "The calls of the AI SDK",
        [{"type": "tool-call", "toolCallId": "call_1", "toolName": _NAME, "input": _ARGUMENTS}],
    ),
    "langchain": (
        "An AIMessage of LangChain",
        {
            "type": "ai",
            "content": "",
            "tool_calls": [{"type": "tool_call", "name": _NAME, "args": _ARGUMENTS, "id": "call_1"}],
        },
    ),
    "mcp": (
        "A request of MCP",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": _NAME, "arguments": _ARGUMENTS},
        },
    ),
    "utcp": ("A name and arguments", {"tool_name": _NAME, "arguments": _ARGUMENTS}),
    "json-prompt": (
        "The text of a model without tool calling",
        'I will search. {"tool_name": "library_searchBooks", "arguments": {"q": "history"}}',
    ),
}
REQUEST_EXAMPLES: Final[dict[str, Any]] = {
    name: {"summary": summary, "value": value} for name, (summary, value) in _CALLS.items()
}
_RESULT: Final = {
    "id": "call_1", "name": _NAME, "tool": "library.searchBooks",
    "position": "/choices/0/message/tool_calls/0", "is_error": False,
    "repairs": [], "notes": [], "continuation": None,
    "call_id": "0199c2f0-7d3a-7e55-b0c4-6f2f6d1f8a10", "status": 200,
}  # fmt: skip
RESPONSE_EXAMPLES: Final[dict[str, Any]] = {
    "openai-chat": {
        "summary": "For a chat completion",
        "value": {
            "format": "openai-chat",
            "messages": [{"role": "tool", "tool_call_id": "call_1", "content": '{"total":1}'}],
            "results": [_RESULT],
            "cut": None,
        },
    },
    "anthropic": {
        "summary": "For a message of Claude",
        "value": {
            "format": "anthropic",
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": '{"total":1}'}],
                }
            ],
            "results": [{**_RESULT, "id": "toolu_1", "position": "/content/0"}],
            "cut": None,
        },
    },
}

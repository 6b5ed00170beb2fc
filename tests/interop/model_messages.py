"""Validates messages with results by the types of the released SDKs; run in the environment `model-sdks`.

Each line of its input is `[DIALECT, MESSAGES]` in JSON. Raises what the types raise; prints `{"valid": n}` for n messages.
"""

import base64
import json
import sys
from typing import Any


def openai_chat(messages: list[Any]) -> None:
    from openai.types.chat import ChatCompletionToolMessageParam
    from pydantic import ConfigDict, TypeAdapter, with_config

    strict = with_config(ConfigDict(extra="forbid"))(ChatCompletionToolMessageParam)
    TypeAdapter(list[strict]).validate_python(messages)


def openai_responses(messages: list[Any]) -> None:
    from openai.types.responses.response_input_item_param import FunctionCallOutput
    from pydantic import ConfigDict, TypeAdapter, with_config

    strict = with_config(ConfigDict(extra="forbid"))(FunctionCallOutput)
    TypeAdapter(list[strict]).validate_python(messages)


def anthropic(messages: list[Any]) -> None:
    from anthropic.types import MessageParam, ToolResultBlockParam
    from pydantic import TypeAdapter

    TypeAdapter(list[MessageParam]).validate_python(messages)
    for message in messages:
        TypeAdapter(list[ToolResultBlockParam]).validate_python(message["content"])


def gemini(messages: list[Any]) -> None:
    from google.genai import types

    for message in messages:
        content = types.Content.model_validate(message)
        assert all(part.function_response is not None for part in content.parts)


def bedrock(messages: list[Any]) -> None:
    import botocore.session
    from botocore.validate import ParamValidator

    for block in (block for message in messages for block in message["content"]):
        for part in block["toolResult"]["content"]:
            for media in (part.get("image"), part.get("document")):
                if media is not None:
                    media["source"]["bytes"] = base64.b64decode(media["source"]["bytes"], validate=True)
    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    shape = model.operation_model("Converse").input_shape.members["messages"]
    report = ParamValidator().validate(messages, shape)
    assert not report.has_errors(), report.generate_report()


def mistral(messages: list[Any]) -> None:
    from mistralai.client.models import ToolMessage

    for message in messages:
        ToolMessage.model_validate(message)


def cohere(messages: list[Any]) -> None:
    from cohere import ToolChatMessageV2

    for message in messages:
        ToolChatMessageV2.model_validate(message)


def ollama(messages: list[Any]) -> None:
    from ollama import Message

    for message in messages:
        assert Message.model_validate(message).tool_name


def langchain(messages: list[Any]) -> None:
    from langchain_core.messages import ToolMessage, convert_to_messages

    converted = convert_to_messages(messages)
    assert all(isinstance(one, ToolMessage) and not one.additional_kwargs for one in converted)


TYPES = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "bedrock": bedrock,
    "mistral": mistral,
    "cohere": cohere,
    "ollama": ollama,
    "langchain": langchain,
}

if __name__ == "__main__":
    for line in sys.stdin:
        dialect, found = json.loads(line)
        TYPES[dialect](found)
        print(json.dumps({"valid": len(found)}), flush=True)

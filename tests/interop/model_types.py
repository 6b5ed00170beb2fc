"""What the types of the released SDKs reject of exported tools; run in the environment `model-sdks`.

Each line of its input is a list of files in JSON, each with the response of `GET /tools/export`. Prints an object with an error by file;
null where there is none.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def openai_chat(tools: Any) -> None:
    from openai.types.chat import ChatCompletionFunctionToolParam
    from pydantic import TypeAdapter

    TypeAdapter(list[ChatCompletionFunctionToolParam]).validate_python(tools)


def openai_responses(tools: Any) -> None:
    from openai.types.responses import FunctionToolParam
    from pydantic import TypeAdapter

    TypeAdapter(list[FunctionToolParam]).validate_python(tools)


def anthropic(tools: Any) -> None:
    from anthropic.types import ToolParam
    from pydantic import TypeAdapter

    TypeAdapter(list[ToolParam]).validate_python(tools)


def gemini(tools: Any) -> None:
    from google.genai.types import Tool

    for tool in tools:
        Tool.model_validate(tool)


def bedrock(tools: Any) -> None:
    from importlib import import_module

    # Their functions have no types.
    loaders: Any = import_module("botocore.loaders")
    model: Any = import_module("botocore.model")
    validate: Any = import_module("botocore.validate")
    description = loaders.Loader().load_service_model("bedrock-runtime", "service-2")
    shape = model.ServiceModel(description).shape_for("ToolConfiguration")
    report = validate.ParamValidator().validate({"tools": tools}, shape)
    assert not report.has_errors(), report.generate_report()


def mistral(tools: Any) -> None:
    from mistralai.client.models import Tool

    for tool in tools:
        Tool.model_validate(tool)


def cohere(tools: Any) -> None:
    from cohere import ToolV2

    for tool in tools:
        ToolV2.model_validate(tool)


def ollama(tools: Any) -> None:
    from ollama import Tool

    for tool in tools:
        Tool.model_validate(tool)


def langchain(tools: Any) -> None:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    for tool in tools:
        assert convert_to_openai_tool(tool) == tool, tool["function"]["name"]


READERS: dict[str, Callable[[Any], None]] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "gemini-openapi": gemini,
    "bedrock": bedrock,
    "mistral": mistral,
    "cohere": cohere,
    "ollama": ollama,
    "langchain": langchain,
}


def rejected(path: str) -> str | None:
    """Return why the types reject an export; None where they accept it."""
    export = json.loads(Path(path).read_text("utf-8"))
    try:
        READERS[export["format"]](export["tools"])
    except Exception as error:  # noqa: BLE001 - each SDK raises errors of its own.
        return f"{type(error).__name__}: {str(error)[:1000]}"
    return None


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps({path: rejected(path) for path in json.loads(line)}), flush=True)

"""The generated models are those of the contract, and SDK objects are read as they are."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from anthropic.types import Message
from google.genai.types import GenerateContentResponse
from langchain_core.messages import AIMessage
from openai.types.chat import ChatCompletionMessage

from utcp_gateway_client.gateway import models
from utcp_gateway_client.gateway.model_input import as_json


def test_models_are_current(tmp_path):
    script = Path(__file__).parents[2] / "scripts" / "generate_models.py"
    subprocess.run([sys.executable, str(script), str(tmp_path / "models.py")], check=True)
    assert (tmp_path / "models.py").read_text() == Path(models.__file__).read_text()


def test_models_take_members_and_values_of_later_gateways():
    ready = models.Ready.model_validate({"status": "sleeping", "database": "ok", "redis": "ok", "later": 1})
    assert (ready.status, ready.model_extra) == ("sleeping", {"later": 1})


ARGUMENTS = {"city": "Hull", "country": None}


@dataclass
class Call:
    name: str
    arguments: dict


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (
            ChatCompletionMessage.model_validate({
                "role": "assistant", "content": None,
                "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": json.dumps(ARGUMENTS)}}],
            }),
            lambda read: json.loads(read["tool_calls"][0]["function"]["arguments"]),
        ),
        (
            Message.model_validate({
                "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
                "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
                "content": [{"type": "tool_use", "id": "1", "name": "f", "input": ARGUMENTS}],
            }),
            lambda read: read["content"][0]["input"],
        ),
        (
            GenerateContentResponse.model_validate({
                "candidates": [{"content": {"role": "model", "parts": [
                    {"functionCall": {"name": "f", "args": ARGUMENTS}, "thoughtSignature": "AAE="}
                ]}}],
            }),
            lambda read: read["candidates"][0]["content"]["parts"][0]["functionCall"]["args"],
        ),
        (
            AIMessage("", tool_calls=[{"name": "f", "args": ARGUMENTS, "id": "1"}]),
            lambda read: read["tool_calls"][0]["args"],
        ),
        ([Call("f", ARGUMENTS)], lambda read: read[0]["arguments"]),
    ],
)  # fmt: skip
def test_arguments_in_objects_of_sdks(value, pointer):
    assert pointer(json.loads(json.dumps(as_json(value)))) == ARGUMENTS


def test_signature_of_gemini_is_base64():
    part = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "AAE="}
    response = GenerateContentResponse.model_validate(
        {"candidates": [{"content": {"role": "model", "parts": [part]}}]}
    )
    assert as_json(response)["candidates"][0]["content"]["parts"][0]["thoughtSignature"] == "AAE="


def test_object_without_a_json_form():
    with pytest.raises(TypeError, match="object has no JSON form"):
        as_json({"a": object()})

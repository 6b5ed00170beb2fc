"""The released SDKs of model providers hold a conversation whose tool calls are run by `POST /tool-calls`."""

from pathlib import Path

import orjson
import pytest

from app.agents.tool_calls.answers import result_messages
from app.agents.tool_calls.model import CallAnswer, Dialect, ToolCall
from app.calls.results import Media, ModelResult
from tests.harness.gateway import RunningGateway
from tests.interop.clients import ask_program
from tests.interop.environments import interpreter
from tests.interop.model_providers import CALLS, ERRORS

HERE = Path(__file__).parent
SDKS: tuple[Dialect, ...] = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "bedrock",
    "mistral",
    "cohere",
    "ollama",
    "langchain",
)


@pytest.mark.parametrize("sdk", SDKS)
def test_an_sdk_takes_the_export_and_the_results_of_its_models_calls(
    sdk: str, gateway: RunningGateway, library: str, provider_url: str
) -> None:
    python = interpreter("model-sdks")
    with gateway.client() as client:
        exported = client.get("/tools/export", params={"format": sdk, "provider": library})
    assert exported.status_code == 200, exported.text
    tools = exported.json()["tools"]
    program = [str(python), str(HERE / "model_loop.py")]
    found = ask_program(program, "hold_conversation", sdk, provider_url, gateway.url, gateway.key, tools)
    assert found["text"] == f"{len(CALLS)} results, {sum(ERRORS)} errors"
    assert found["formats"][0] == sdk


def answers() -> list[CallAnswer]:
    """Return an answer of each kind: JSON of several forms, an error, an image with a document, and notes."""
    cut = ModelResult('{"a": 1}', body=b'{"a": 1}')
    cut.add_notes(["Cut after 1 item."])
    media = (Media("image/png", b"png"), Media("application/pdf", b"pdf"), Media("audio/wav", b"wav"))
    results = (
        ModelResult('{"a": 1}', body=b'{"a": 1}'), ModelResult("[1]", body=b"[1]"), ModelResult("2", body=b"2"),
        ModelResult("HTTP 404 from p", is_error=True), ModelResult("(media)", media=media), cut,
    )  # fmt: skip
    return [
        CallAnswer(ToolCall(f"call_{index}", "t", {}, "", index), result)
        for index, result in enumerate(results)
    ]


@pytest.mark.parametrize("dialect", SDKS)
def test_every_kind_of_result_has_the_types_of_the_sdk(dialect: Dialect) -> None:
    messages = orjson.loads(orjson.dumps(result_messages(dialect, answers())))
    found = ask_program([str(interpreter("model-sdks")), str(HERE / "model_messages.py")], dialect, messages)
    assert found == {"valid": 1 if dialect in ("anthropic", "gemini", "bedrock") else 6}

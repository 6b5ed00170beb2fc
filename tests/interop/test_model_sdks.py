"""The released SDKs of model providers hold a conversation whose tool calls are run by `POST /tool-calls`."""

import json
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from app.cli.sample import sample_api
from app.model_calls.answers import result_messages
from app.model_calls.model import CallAnswer, Dialect, ToolCall
from app.tool_results import Media, ModelResult
from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway
from tests.interop.clients import run_program
from tests.interop.environments import interpreter
from tests.interop.model_providers import CALLS, ERRORS, providers

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


@pytest.fixture(scope="module")
def library(gateway: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sample API, registered as `interop`."""
    with sample_api(tmp_path_factory.mktemp("sample"), port=0) as registration, gateway.client() as client:
        made = client.post("/providers", json=registration | {"name": "interop"})
        assert made.status_code == 201, made.text
        yield "interop"
        client.delete("/providers/interop")


@pytest.fixture(scope="module")
def provider_url() -> Iterator[str]:
    """The servers with the wire formats of the providers."""
    with beside(web_server(providers())) as url:
        yield url


@pytest.mark.parametrize("sdk", SDKS)
def test_an_sdk_takes_the_export_and_the_results_of_its_models_calls(
    sdk: str, gateway: RunningGateway, library: str, provider_url: str
) -> None:
    python = interpreter("model-sdks")
    with gateway.client() as client:
        exported = client.get("/tools/export", params={"format": sdk, "provider": library})
    assert exported.status_code == 200, exported.text
    tools = exported.json()["tools"]
    arguments = [sdk, provider_url, gateway.url, gateway.key, json.dumps(tools)]
    found = run_program([str(python), str(HERE / "model_loop.py"), *arguments])
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
    messages = orjson.dumps(result_messages(dialect, answers())).decode()
    found = run_program([str(interpreter("model-sdks")), str(HERE / "model_messages.py"), dialect, messages])
    assert found == {"valid": 1 if dialect in ("anthropic", "gemini", "bedrock") else 6}

"""What goes wrong with a model or its API is the error of a result; keys are sent where they belong."""

import json

import pytest

from tests.api.agents.tests.conftest import CANARIES
from tests.harness.cases import for_each
from tests.harness.model_peers import ModelServer, Turn

MODELS = {"claude-sonnet-4": "anthropic", "gpt-4o": "openai", "gemini-2.5-pro": "gemini"}
READ = ("read_file", {"path": "notes.txt"})
ERROR_FIELDS = {
    "testCase", "model", "passed", "score", "error", "durationMs",
    "calls", "iterations", "usage", "repeat", "passRate", "warnings",
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
async def test_an_error_of_the_api_is_the_error_of_the_result(run, models, model) -> None:
    said = json.dumps({"error": {"message": "The model is not available."}})
    models.turns = [Turn(status=404, content=said)]
    result = await run(model, plugins=["filesystem"], assertions=[{"type": "contains", "value": "x"}])
    assert set(result) == ERROR_FIELDS
    assert (result["passed"], result["score"], result["calls"]) == (False, 0.0, [])
    assert result["error"] == "The API of the model responded with HTTP 404: The model is not available."


async def test_a_busy_api_is_asked_again_after_its_retry_after(run, models) -> None:
    busy = Turn(status=429, headers={"Retry-After": "0"}, content="{}")
    failed = Turn(status=503, headers={"retry-after-ms": "1"}, content="{}")
    models.turns = [busy, failed, Turn("Hello.")]
    result = await run("gpt-4o")
    assert (result["passed"], result["response"], len(models.requests)) == (True, "Hello.", 3)


async def test_a_busy_api_is_asked_four_times(run, models) -> None:
    models.turns = [Turn(status=529, headers={"Retry-After": "0"}, content='{"error": "overloaded"}')]
    result = await run("claude-x")
    assert result["error"] == "The API of the model responded with HTTP 529 after 4 attempts: overloaded"
    assert len(models.requests) == 4


async def test_a_retry_after_of_more_than_a_minute_is_not_waited_for(run, models) -> None:
    models.turns = [Turn(status=429, headers={"Retry-After": "3600"}, content="{}")]
    result = await run("claude-x")
    assert result["error"] == "The API of the model responded with HTTP 429: {}"


@for_each(
    ("turn", "text"),
    [
        pytest.param(Turn(content="<html>"), "is not valid JSON", id="no-json"),
        pytest.param(Turn(content=""), "not one of the dialect", id="empty"),
        pytest.param(Turn(content="[]"), "not one of the dialect", id="another-shape"),
        pytest.param(Turn(content='{"choices": []}'), "not one of the dialect", id="no-choice"),
        pytest.param(
            Turn(content='{"choices": [{"message": {"tool_calls": [{}]}}]}'),
            "See /choices/0/message/tool_calls/0/function",
            id="malformed-call",
        ),
        pytest.param(Turn("A long", finish="length"), "cut at the limit of 4096 tokens", id="cut"),
        pytest.param(Turn("", refusal="No."), "The model refused to respond", id="refusal"),
    ],
)
async def test_a_response_that_cannot_be_used_is_an_error(run, models, turn, text) -> None:
    models.turns = [turn]
    result = await run("gpt-4o")
    assert text in result["error"]
    assert not result["passed"]


@pytest.mark.parametrize(
    ("model", "finish"), [("claude-x", "max_tokens"), ("gpt-4o", "length"), ("gemini-x", "MAX_TOKENS")]
)
async def test_calls_of_a_response_that_was_cut_are_not_made(run, models, upstream, model, finish) -> None:
    models.turns = [Turn("I read", (READ,), finish=finish)]
    result = await run(model, plugins=["filesystem"])
    assert (result["stopped"], result["response"]) == ("length", "I read")
    assert [one["outcome"] for one in result["calls"]] == ["not_made"]
    assert upstream.requests == []


@pytest.mark.parametrize(("model", "finish"), [("claude-x", "refusal"), ("gemini-x", "SAFETY")])
async def test_a_refusal_is_an_error(run, models, model, finish) -> None:
    models.turns = [Turn("I will not.", finish=finish)]
    result = await run(model)
    assert (result["stopped"], result["response"]) == ("refusal", "I will not.")
    assert "refused" in result["error"]


async def test_a_prompt_that_is_blocked_is_an_error(run, models) -> None:
    models.turns = [Turn(content='{"promptFeedback": {"blockReason": "SAFETY"}}')]
    assert "refused" in (await run("gemini-x"))["error"]


async def test_a_turn_that_was_paused_goes_on(run, models) -> None:
    models.turns = [Turn("I think.", finish="pause_turn"), Turn("Done.")]
    result = await run("claude-x")
    assert (result["response"], result["iterations"]) == ("Done.", 2)
    assert [one["role"] for one in models.requests[1]["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize("model", MODELS)
async def test_a_configured_key_is_not_sent_to_a_base_url_of_the_request(run, models, model) -> None:
    dialects = {"anthropic": "anthropic", "openai": "openai-chat", "gemini": "gemini"}
    with ModelServer([Turn("Hello.")]) as other:
        for given in ({}, {"api_key": "key-of-the-request-7Qx"}):
            target = {
                "model": model, "base_url": other.url, "dialect": dialects[MODELS[model]], **given,
            }  # fmt: skip
            result = await run(target)
            assert result["response"] == "Hello."
        without, with_key = (str(headers) for _, headers in other.heads)
    assert not any(canary in without + with_key for canary in CANARIES.values())
    assert "key-of-the-request-7Qx" in with_key
    # Not even to the configured URL itself.
    models.turns = [Turn("Hello.")]
    await run({"model": model, "base_url": models.url, "dialect": dialects[MODELS[model]]})
    assert not any(canary in str(models.heads) for canary in CANARIES.values())


async def test_a_key_of_the_request_replaces_the_configured_one(run, models) -> None:
    models.turns = [Turn("Hello.")]
    await run({"model": "gpt-4o", "api_key": "key-of-the-request-7Qx"})
    assert models.heads[0][1]["Authorization"] == "Bearer key-of-the-request-7Qx"


async def test_keys_appear_in_no_result_and_no_log(run, models, capfd) -> None:
    def echo(body):
        key = models.heads[-1][1].get("Authorization", "")
        return Turn(
            f"Your header is {key}", (("read_file", {"path": key}),) if len(body["messages"]) == 1 else ()
        )

    models.turns = [echo]
    key = "key-of-the-request-7Qx"
    asked = {"model": "gpt-4o", "api_key": key}
    for target in ("gpt-4o", asked):
        result = await run(
            target, plugins=["filesystem"], assertions=[{"type": "contains", "value": "nothing"}]
        )
        assert result["response"] == "Your header is Bearer ***"
        assert key not in str(result)
        assert CANARIES["openai"] not in str(result)
    models.turns = [Turn(status=401, content=json.dumps({"error": {"message": f"Incorrect key {key}"}}))]
    result = await run(asked)
    assert result["error"] == "The API of the model responded with HTTP 401: Incorrect key ***"
    output = "".join(capfd.readouterr())
    assert key not in output
    assert CANARIES["openai"] not in output


async def test_keys_that_are_not_valid_are_not_repeated(client) -> None:
    body = {"input": "Hi", "models": [{"model": "gpt-4o", "api_key": "key\ncanary-7Qx"}]}
    response = await client.post("/agent-tests", json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/models/0/api_key"
    assert "canary-7Qx" not in response.text


@pytest.mark.parametrize("url", ["http://10.1.2.3/v1", "http://169.254.169.254", "https://[fd00::1]/v1"])
async def test_addresses_that_the_gateway_does_not_allow_are_not_connected_to(run, url) -> None:
    result = await run({"model": "gpt-4o", "base_url": url})
    assert result["error"] == "The gateway's network policy does not allow the API of the model."


async def test_an_api_that_cannot_be_reached_is_an_error(run, unused_port) -> None:
    result = await run({"model": "gpt-4o", "base_url": f"http://127.0.0.1:{unused_port}"})
    assert result["error"].startswith("The API of the model cannot be reached: ")


@pytest.mark.parametrize(
    "url", ["ftp://example.com", "https://user:pass@example.com", "https://example.com?x=1", "example.com"]
)
async def test_base_urls_that_no_path_can_be_added_to_are_rejected(client, url) -> None:
    body = {"input": "Hi", "models": [{"model": "gpt-4o", "base_url": url}]}
    response = await client.post("/agent-tests", json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/models/0/base_url"


@pytest.fixture
def unused_port() -> int:
    from tests.protocols.kits.base import free_port

    return free_port()

"""Conversations with tool calls, by the released SDKs of models' providers; run in the environment `model-sdks`.

Each line of its input is a list in JSON, in one of two forms; it prints a line for each.

    ["hold_conversation", SDK, PROVIDER_URL, GATEWAY_URL, KEY, TOOLS]
    ["list_rejections", SDK, PROVIDER_URL, LISTS]

In the first form it asks a question, sends what the model responded to `POST /tool-calls`, appends the messages of the response, and
asks again, until the model calls no tool; it prints the last text and the formats. `TOOLS` are the tools as `GET /tools/export` returns
them for the SDK. In the second form it asks once with each of the lists of tools, and prints the errors that the SDK raised, by the index
of the list.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import httpx

QUESTION = "Which books about the sea are there?"
MAX_TURNS = 5


class Gateway:
    """`POST /tool-calls` with the body that an SDK dumps."""

    def __init__(self, url: str, key: str) -> None:
        self._client = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=60
        )
        self.formats: list[str] = []

    def run(self, body: Any, **parameters: str) -> list[Any]:
        """Return the messages to append."""
        response = self._client.post("/tool-calls", json=body, params=parameters)
        response.raise_for_status()
        self.formats.append(response.json()["format"])
        return response.json()["messages"]


class Responded(Exception):
    """The provider has accepted the request."""


class NoGateway(Gateway):
    """Ends the conversation at the first response."""

    def __init__(self) -> None:
        """There is no gateway to connect to."""

    def run(self, body: Any, **parameters: str) -> list[Any]:
        raise Responded


def openai_chat(url: str, gateway: Gateway, tools: list[dict[str, Any]]) -> str:
    from openai import OpenAI

    client = OpenAI(api_key="k", base_url=f"{url}/openai", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    for _ in range(MAX_TURNS):
        answer = client.chat.completions.create(model="m", messages=messages, tools=tools)
        messages.append(answer.choices[0].message)
        results = gateway.run(answer.model_dump(mode="json"))
        if not results:
            return answer.choices[0].message.content
        messages += results
    raise AssertionError(messages)


def openai_responses(url: str, gateway: Gateway, tools: list[dict[str, Any]]) -> str:
    from openai import OpenAI

    client = OpenAI(api_key="k", base_url=f"{url}/openai", max_retries=0)
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    for _ in range(MAX_TURNS):
        answer = client.responses.create(model="m", input=items, tools=tools)
        results = gateway.run(answer.model_dump(mode="json", exclude_none=True), assistant="true")
        if not any(item.type == "function_call" for item in answer.output):
            return answer.output_text
        items += results
    raise AssertionError(items)


def anthropic(url: str, gateway: Gateway, tools: list[dict[str, Any]]) -> str:
    from anthropic import Anthropic

    client = Anthropic(api_key="k", base_url=f"{url}/anthropic", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    for _ in range(MAX_TURNS):
        answer = client.messages.create(model="m", max_tokens=100, messages=messages, tools=tools)
        messages.append({"role": "assistant", "content": answer.content})
        results = gateway.run(answer.model_dump(mode="json"))
        if not results:
            return answer.content[0].text
        messages += results
    raise AssertionError(messages)


def gemini(url: str, gateway: Gateway, tools: list[dict[str, Any]]) -> str:
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=f"{url}/gemini", api_version="v1beta")
    client = genai.Client(api_key="k", http_options=options)
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=QUESTION)])]
    config = types.GenerateContentConfig(
        tools=[types.Tool.model_validate(one) for one in tools],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    for _ in range(MAX_TURNS):
        answer = client.models.generate_content(model="m", contents=contents, config=config)
        contents.append(answer.candidates[0].content)
        results = gateway.run(answer.model_dump(mode="json", exclude_none=True))
        if not results:
            return answer.text
        contents += [types.Content.model_validate(one) for one in results]
    raise AssertionError(contents)


def bedrock(url: str, gateway: Gateway, tools: list[dict[str, Any]]) -> str:
    import botocore.session
    from botocore.config import Config

    session = botocore.session.get_session()
    client = session.create_client(
        "bedrock-runtime", region_name="us-east-1", endpoint_url=f"{url}/bedrock", aws_access_key_id="a",
        aws_secret_access_key="s", config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip
    messages: list[Any] = [{"role": "user", "content": [{"text": QUESTION}]}]
    for _ in range(MAX_TURNS):
        answer = client.converse(modelId="m", messages=messages, toolConfig={"tools": tools})
        answer.pop("ResponseMetadata")
        messages.append(answer["output"]["message"])
        results = gateway.run(answer)
        if not results:
            return answer["output"]["message"]["content"][0]["text"]
        messages += results
    raise AssertionError(messages)


def mistral(url: str, gateway: Gateway, tools: list[dict[str, Any]]) -> str:
    from mistralai.client import Mistral

    client = Mistral(api_key="k", server_url=f"{url}/mistral")
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    for _ in range(MAX_TURNS):
        answer = client.chat.complete(model="m", messages=messages, tools=tools)
        messages.append(answer.choices[0].message)
        results = gateway.run(answer.model_dump(mode="json"), format="mistral")
        if not results:
            return answer.choices[0].message.content
        messages += results
    raise AssertionError(messages)


def cohere(url: str, gateway: Gateway, tools: list[dict[str, Any]]) -> str:
    from cohere import ClientV2

    client = ClientV2(api_key="k", base_url=f"{url}/cohere", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    for _ in range(MAX_TURNS):
        answer = client.chat(model="m", messages=messages, tools=tools)
        messages.append(answer.message)
        results = gateway.run(json.loads(answer.model_dump_json()))
        if not results:
            return answer.message.content[0].text
        messages += results
    raise AssertionError(messages)


def ollama(url: str, gateway: Gateway, tools: list[dict[str, Any]]) -> str:
    from ollama import Client

    client = Client(host=f"{url}/ollama", trust_env=False)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    for _ in range(MAX_TURNS):
        answer = client.chat(model="m", messages=messages, tools=tools)
        messages.append(answer.message)
        results = gateway.run(answer.model_dump(mode="json"))
        if not results:
            return answer.message.content
        messages += results
    raise AssertionError(messages)


def langchain(url: str, gateway: Gateway, tools: list[dict[str, Any]]) -> str:
    """LangChain's messages between the calls: they are converted to those of OpenAI and back."""
    from langchain_core.messages import AIMessage, convert_to_messages, convert_to_openai_messages
    from openai import OpenAI

    client = OpenAI(api_key="k", base_url=f"{url}/langchain", max_retries=0)
    messages = convert_to_messages([("user", QUESTION)])
    for _ in range(MAX_TURNS):
        answer = client.chat.completions.create(
            model="m", messages=convert_to_openai_messages(messages), tools=tools
        )
        message = answer.choices[0].message
        calls = [
            {"name": one.function.name, "args": json.loads(one.function.arguments), "id": one.id}
            for one in message.tool_calls or ()
        ]
        turn = AIMessage(content=message.content or "", tool_calls=calls)
        messages.append(turn)
        results = convert_to_messages(gateway.run(turn.model_dump(mode="json")))
        if not results:
            return turn.content
        assert {one.status for one in results} == {"success", "error"}
        messages += results
    raise AssertionError(messages)


SDKS: dict[str, Callable[[str, Gateway, list[dict[str, Any]]], str]] = {
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


def rejected(sdk: str, provider_url: str, tools: list[dict[str, Any]]) -> str | None:
    """Return the error with which a provider rejects a request with these tools; None where it responds."""
    try:
        SDKS[sdk](provider_url, NoGateway(), tools)
    except Responded:
        return None
    except Exception as error:  # noqa: BLE001 - each SDK raises errors of its own.
        return f"{type(error).__name__}: {error}"
    raise AssertionError(sdk)


def list_rejections(sdk: str, provider_url: str, lists: list[list[dict[str, Any]]]) -> dict[str, Any]:
    errors = [rejected(sdk, provider_url, tools) for tools in lists]
    return {str(index): error for index, error in enumerate(errors) if error is not None}


def hold_conversation(
    sdk: str, provider_url: str, gateway_url: str, key: str, tools: list[dict[str, Any]]
) -> dict[str, Any]:
    used = Gateway(gateway_url, key)
    text = SDKS[sdk](provider_url, used, tools)
    return {"text": text, "formats": used.formats}


if __name__ == "__main__":
    forms: dict[str, Callable[..., dict[str, Any]]] = {
        "hold_conversation": hold_conversation,
        "list_rejections": list_rejections,
    }
    for line in sys.stdin:
        form, *arguments = json.loads(line)
        print(json.dumps(forms[form](*arguments)), flush=True)

"""Tools of a gateway for Pydantic AI, with the extra `pydantic-ai`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from utcp_gateway_client.gateway.framework_calls import call_message, content_of, is_correctable, is_error
from utcp_gateway_client.gateway.models import ToolCallsResponse

try:
    from pydantic_ai import Tool
    from pydantic_ai.exceptions import ModelRetry, ToolFailed
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Tools for Pydantic AI need the extra `pydantic-ai`: pip install 'utcp-gateway-client[pydantic-ai]'.",
        name=error.name,
    ) from None

DIALECT: Final = "openai-chat"


def pydantic_ai_tools(
    definitions: Sequence[Mapping[str, Any]],
    *,
    call_blocking: Callable[[dict[str, Any]], ToolCallsResponse] | None = None,
    call_async: Callable[[dict[str, Any]], Awaitable[ToolCallsResponse]] | None = None,
) -> list[Tool[Any]]:
    """Return a tool for each definition of an export in the dialect `openai-chat`.

    One of the two calls is given.
    """

    def function_of(name: str) -> Callable[..., Any]:
        # Both have keywords alone, so that arguments may have any names.
        def blocking(**arguments: Any) -> Any:
            if call_blocking is None:
                raise TypeError("There is no call.")
            return _result(call_blocking(call_message(DIALECT, name, arguments)))

        async def concurrent(**arguments: Any) -> Any:
            if call_async is None:
                raise TypeError("There is no call.")
            return _result(await call_async(call_message(DIALECT, name, arguments)))

        return blocking if call_async is None else concurrent

    functions = [definition["function"] for definition in definitions]
    return [
        Tool.from_schema(
            function_of(each["name"]), name=each["name"], description=each.get("description"),
            json_schema=each["parameters"],
        )
        for each in functions
    ]  # fmt: skip


def _result(response: ToolCallsResponse) -> Any:
    content = content_of(response)
    if is_correctable(response):
        raise ModelRetry(content)
    if is_error(response):
        raise ToolFailed(content)
    return content

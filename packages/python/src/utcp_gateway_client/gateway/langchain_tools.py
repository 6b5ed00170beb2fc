"""Tools of a gateway for LangChain, with the extra `langchain`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from utcp_gateway_client.gateway.framework_calls import call_message, content_of, is_error
from utcp_gateway_client.gateway.models import ToolCallsResponse

try:
    from langchain_core.tools import StructuredTool, ToolException
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Tools for LangChain need the extra `langchain`: pip install 'utcp-gateway-client[langchain]'.",
        name=error.name,
    ) from None

DIALECT: Final = "langchain"


class GatewayStructuredTool(StructuredTool):
    """A StructuredTool whose arguments may have any names, also `config` and `run_manager`."""

    def _to_args_and_kwargs(
        self,
        tool_input: str | dict[str, Any],
        tool_call_id: str | None,  # noqa: ARG002 - of the base class
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if isinstance(tool_input, str):
            raise ToolException("The arguments of the tool are an object.")
        return (tool_input,), {}

    # StructuredTool hands over the arguments as keywords.
    def _run(self, arguments: dict[str, Any]) -> Any:  # type: ignore[override]
        if self.func is None:
            raise NotImplementedError("The tools of an AsyncGateway are called by ainvoke.")
        return self.func(arguments)

    async def _arun(self, arguments: dict[str, Any]) -> Any:  # type: ignore[override]
        if self.coroutine is None:
            raise TypeError("StructuredTool calls `invoke` in a thread where there is no coroutine.")
        return await self.coroutine(arguments)


def langchain_tools(
    definitions: Sequence[Mapping[str, Any]],
    *,
    call_blocking: Callable[[dict[str, Any]], ToolCallsResponse] | None = None,
    call_async: Callable[[dict[str, Any]], Awaitable[ToolCallsResponse]] | None = None,
) -> list[StructuredTool]:
    """Return a tool for each definition of an export in the dialect `langchain`.

    One of the two calls is given.
    """
    functions = [definition["function"] for definition in definitions]
    return [
        GatewayStructuredTool(
            name=each["name"],
            description=each.get("description", ""),
            args_schema=each["parameters"],
            # Errors of calls are results for the model.
            handle_tool_error=True,
            func=None if call_blocking is None else _blocking(each["name"], call_blocking),
            coroutine=None if call_async is None else _concurrent(each["name"], call_async),
        )
        for each in functions
    ]


def _blocking(
    name: str, call: Callable[[dict[str, Any]], ToolCallsResponse]
) -> Callable[[dict[str, Any]], Any]:
    return lambda arguments: _result(call(call_message(DIALECT, name, arguments)))


def _concurrent(
    name: str, call: Callable[[dict[str, Any]], Awaitable[ToolCallsResponse]]
) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    async def called(arguments: dict[str, Any]) -> Any:
        return _result(await call(call_message(DIALECT, name, arguments)))

    return called


def _result(response: ToolCallsResponse) -> Any:
    content = content_of(response)
    if is_error(response):
        raise ToolException(content)
    return content

"""A Python function as a tool: its name, description and schemas, and calls with JSON arguments."""

import asyncio
import contextvars
import inspect
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from copy import copy
from functools import partial
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from pydantic import BaseModel

from utcp_gateway_client.tools.arguments import InvalidArguments, arguments_of, output_schema, parameters_of
from utcp_gateway_client.tools.docstrings import read_docstring
from utcp_gateway_client.tools.previews import preview
from utcp_gateway_client.tools.results import ToolError, ToolResult, error_result, result_of
from utcp_gateway_client.tools.schemas import Schema, strict_form

P = ParamSpec("P")
R = TypeVar("R")
JsonArguments = str | bytes | Mapping[str, Any] | None
"""The arguments of a call: a JSON object as text or as a mapping; "" and None for no argument."""

_log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Tool(Generic[P, R]):
    """A tool that calls a function `f()`, `f(arguments: BaseModel)` or `f(a, b, ...)`, which may be async.

    `name` is that of the function or the given one: 1 to 64 letters, digits, `_` and `-`, which all model
    providers accept. The tool is called as the function is, with the same arguments and result; `exec` and
    `execute` take JSON. Raises TypeError where `function` is not a plain function, or its parameters have no
    JSON Schema, and ValueError for other names.

    `read_only` says that a call changes nothing, `timeout_seconds` how long a call may take; the loop over a
    model uses both.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        tags: Iterable[str] = (),
        read_only: bool = False,
        timeout_seconds: float | None = None,
    ) -> None:
        if not inspect.isfunction(function):
            raise TypeError(f"{function!r} is not a plain function.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__name__} cannot be a tool: a generator does not return a result.")
        documented = read_docstring(function.__doc__, parameters_of(function))
        self.function: Callable[P, R] = function
        self.name = _checked(function.__name__ if name is None else name)
        self.description = description or documented.description or f"function {self.name}"
        self.tags = tuple(tags)
        self.read_only = read_only
        self.timeout_seconds = timeout_seconds
        # A decorator may have put a function that is not async around one that is.
        self.is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
        self.output_schema: Schema = output_schema(function)
        self._arguments = arguments_of(function, documented.parameters)
        self._strict = strict_form(self._arguments.schema)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def argument_schema(self) -> Schema:
        """The JSON Schema of the arguments alone, without references: for manuals, and for ReAct prompts."""
        return self._arguments.schema

    @property
    def argument_model(self) -> type[BaseModel] | None:
        """The pydantic model of the arguments; None where there are none."""
        return self._arguments.model

    @property
    def tool_schema(self) -> dict[str, Any]:
        """The tool in the form of OpenAI's Chat Completions.

        `strict` is true where the arguments have a strict form that loses nothing, and `parameters` are that
        form.
        """
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "strict": self._strict is not None,
                "parameters": self.argument_schema if self._strict is None else self._strict,
            },
        }

    @property
    def deserialize(self) -> Callable[[str], BaseModel | None] | None:
        """What makes the argument object of JSON text, or raises InvalidArguments; None without
        parameters.
        """
        return None if self._arguments.model is None else self._arguments.read

    def renamed(self, name: str, *, description: str | None = None) -> "Tool[P, R]":
        """Return the same tool by another name, with another description where one is given. Raises
        ValueError.
        """
        tool = copy(self)
        tool.name = _checked(name)
        if description or self.description == f"function {self.name}":
            tool.description = description or f"function {name}"
        return tool

    def exec(self, json_arg: str | None) -> str:
        """Call the function with a JSON object and return its result as text; an error is a text, too."""
        return self.execute(json_arg).text

    def execute(self, arguments: JsonArguments = None) -> ToolResult:
        """Call the function with JSON arguments and return its result; errors are results, and never raised.

        An async function runs in an event loop of its own. Raises RuntimeError for it where a loop is
        running: there, use `execute_async`.
        """
        if self.is_async:
            if _in_event_loop():
                raise RuntimeError(f"{self.name} is async, and a loop is running: await execute_async.")
            return asyncio.run(self.execute_async(arguments))
        values = self._read(arguments)
        return values if isinstance(values, ToolResult) else self._run(values)

    async def execute_async(
        self, arguments: JsonArguments = None, *, threads: Executor | None = None
    ) -> ToolResult:
        """Do the same from async code; a function that is not async runs in a thread (of `threads`, if
        given).
        """
        values = self._read(arguments)
        if isinstance(values, ToolResult):
            return values
        if not self.is_async:
            call = partial(contextvars.copy_context().run, self._run, values)
            return await asyncio.get_running_loop().run_in_executor(threads, call)
        try:
            value = self._arguments.call(self.function, values)
            return self._returned(await value if inspect.isawaitable(value) else value)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not the call was cancelled, but something that the function awaits.
            return self._raised(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a function may raise anything
            return self._raised(error)

    def _read(self, arguments: JsonArguments) -> BaseModel | ToolResult | None:
        if _log.isEnabledFor(logging.DEBUG):
            given = arguments if isinstance(arguments, str | bytes) else repr(arguments)
            _log.debug("Calling tool %s with %s", self.name, preview(given))
        try:
            values = self._arguments.read(arguments)
        except InvalidArguments as error:
            _log.debug("The arguments of tool %s are not valid: %s", self.name, preview(repr(error.errors)))
            return error_result("invalid_arguments", str(error), error.errors)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("Tool %s: the arguments are %s", self.name, preview(repr(values)))
        return values

    def _run(self, values: BaseModel | None) -> ToolResult:
        try:
            return self._returned(self._arguments.call(self.function, values))
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001 - it may raise anything
            return self._raised(error)

    def _returned(self, value: Any) -> ToolResult:
        result = result_of(value)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("Tool %s: the result is %s", self.name, preview(result.text))
        return result

    def _raised(self, error: BaseException) -> ToolResult:
        if isinstance(error, ToolError):
            _log.debug("Tool %s has failed: %s", self.name, preview(str(error)))
            return error_result("tool_error", str(error))
        _log.error("Tool %s has failed", self.name, exc_info=error)
        return error_result("failed", f"The tool has failed ({type(error).__name__}).")


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a tool: 1 to 64 letters, digits, _ and - are allowed.")
    return name


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Iterable[str] = (),
    read_only: bool = False,
    timeout_seconds: float | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Iterable[str] = (),
    read_only: bool = False,
    timeout_seconds: float | None = None,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a Tool of a function, as a decorator: `@tool`, or `@tool(name=..., description=..., tags=...)`."""
    if function is not None:
        return Tool(function)
    return lambda decorated: Tool(
        decorated,
        name=name,
        description=description,
        tags=tags,
        read_only=read_only,
        timeout_seconds=timeout_seconds,
    )

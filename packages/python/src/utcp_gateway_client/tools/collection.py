"""Tools by name."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from utcp_gateway_client.tools.results import ToolResult
from utcp_gateway_client.tools.tool import JsonArguments, Tool

AnyTool = Tool[..., Any]
SchemaMapper = Callable[[dict[str, Any]], Any]

_log = logging.getLogger(__name__)


class ToolCollection:
    """The tools of an agent or of a server, by name, in the order of their registration."""

    def __init__(self, tools: Iterable[AnyTool | Callable[..., Any]] | None = None) -> None:
        self._tools: dict[str, AnyTool] = {}
        for each in tools or ():
            self.register_tool(each)

    def register_tool(self, tool: AnyTool | Callable[..., Any]) -> AnyTool:
        """Add a tool, or a function as a tool, and return it; one of the same name is replaced, with a
        warning.

        Raises TypeError and ValueError as Tool does.
        """
        added = tool if isinstance(tool, Tool) else Tool(tool)
        if added.name in self._tools:
            _log.warning("The tool %s is registered already; it is replaced.", added.name)
        self._tools[added.name] = added
        return added

    def exec_tool(self, name: str, args: str | None) -> str:
        """Call a tool with a JSON object and return its result as text. Raises KeyError for an unknown
        name.
        """
        return self[name].exec(args)

    def execute(self, name: str, arguments: JsonArguments = None) -> ToolResult:
        """Call a tool and return its result. Raises KeyError for an unknown name."""
        return self[name].execute(arguments)

    async def execute_async(self, name: str, arguments: JsonArguments = None) -> ToolResult:
        """Do the same from async code."""
        return await self[name].execute_async(arguments)

    def get_tool_names(self) -> list[str]:
        return list(self._tools)

    def get_schemas(self, mapper: SchemaMapper | None = None) -> list[Any]:
        """Return the tools in the form of OpenAI's Chat Completions, or what `mapper` makes of each."""
        schemas = [each.tool_schema for each in self._tools.values()]
        return schemas if mapper is None else [mapper(schema) for schema in schemas]

    def filter(self, keep: Collection[str] | Callable[[AnyTool], bool]) -> "ToolCollection":
        """Return a collection of the tools with these names, or for which `keep` is true."""
        chosen = keep if callable(keep) else (lambda tool: tool.name in keep)
        return ToolCollection(each for each in self if chosen(each))

    def rename(self, names: Mapping[str, str]) -> "ToolCollection":
        """Return a collection in which tools have other names: `names` maps present ones to new ones.

        Raises KeyError for a name that is not registered, and ValueError where two tools would have one name.
        """
        for name in names:
            self[name]
        tools = [each.renamed(names[each.name]) if each.name in names else each for each in self]
        if len({each.name for each in tools}) < len(tools):
            raise ValueError("Two tools would have the same name.")
        return ToolCollection(tools)

    def __getitem__(self, name: str) -> AnyTool:
        try:
            return self._tools[name]
        except KeyError:
            raise KeyError(f"The tool {name} is not registered.") from None

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

"""The definitions of the meta-tools, as tools of a collection."""

from typing import Any, Final, get_args

from app.calls.results import MAX_FIELDS, ResultFormat
from app.core import exact_json
from app.search.parameters import MAX_QUERIES, MAX_QUERY_LENGTH
from app.toolsets import AgentTool, Listing
from app.toolsets.meta_tools.summary import summarise

FIND_LIMIT: Final = 8
MAX_FIND_LIMIT: Final = 20
MAX_DESCRIBED: Final = 5
META_TOOL_NAMES: Final = ("find_tools", "describe_tools", "call_read_tool", "call_tool", "read_more")

_QUERY: Final = {"type": "string", "minLength": 1, "maxLength": MAX_QUERY_LENGTH}
_CALL: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Name of the tool, as find_tools gives it."},
        "arguments": {
            "type": "object",
            "description": "The tool's arguments. The signature says which: a star marks what is required.",
        },
        "fields": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": MAX_FIELDS,
            "description": "Only these parts of a JSON result, as JSON pointers or JSONPaths such as "
            "$.items[*].id. Needs `arguments`, {} for none.",
        },
        "result_format": {
            "type": "string",
            "enum": list(get_args(ResultFormat)),
            "description": "The form of a result that is a table (a list of objects). Needs `arguments`.",
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}
INPUTS: Final[dict[str, dict[str, Any]]] = {
    "find_tools": {
        "type": "object",
        "properties": {
            "query": {
                "description": "What the tool should do, in words; up to four for a task of several steps.",
                "anyOf": [
                    _QUERY,
                    {"type": "array", "items": _QUERY, "minItems": 1, "maxItems": MAX_QUERIES},
                ],
            },
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FIND_LIMIT, "default": FIND_LIMIT},
            "provider": {"type": "string", "description": "Only tools of this provider."},
            "tags": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Only tools with one of these tags.",
            },
            "read_only": {
                "type": "boolean",
                "default": False,
                "description": "true: only tools that change nothing.",
            },
            "detail": {
                "type": "string",
                "enum": ["brief", "schema"],
                "default": "brief",
                "description": "schema: with the input schema of each tool.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    "describe_tools": {
        "type": "object",
        "properties": {
            "names": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "maxItems": MAX_DESCRIBED,
                "description": "Names of tools, as find_tools gives them.",
            }
        },
        "required": ["names"],
        "additionalProperties": False,
    },
    "call_read_tool": _CALL,
    "call_tool": _CALL,
    "read_more": {
        "type": "object",
        "properties": {
            "continuation": {
                "type": "string",
                "description": "The handle that a result which was cut, or a call that waits, names.",
            }
        },
        "required": ["continuation"],
        "additionalProperties": False,
    },
}
"""The JSON Schema of the arguments of each meta-tool."""

_FIND: Final = (
    "Find tools by what they do. Most tools are not listed: search before you say that something cannot be "
    "done, then call what you found with call_read_tool or call_tool. "
)
_DESCRIBE: Final = (
    "Get the whole description and input schema of up to five tools. Call it before a call whose arguments "
    "the signature does not make clear."
)
_CALL_READ: Final = (
    "Call a tool that changes nothing: find_tools marks these as read-only. The result is that of the tool. "
    "Others are rejected; call them with call_tool."
)
_CALL_ANY: Final = (
    "Call a tool of any kind, also one that changes or deletes data. The result is that of the tool."
)
_READ_MORE: Final = (
    "Read the rest of a result that was cut, or what became of a call that waits for approval, by the "
    "continuation that it names. No tool is called again."
)
_TITLES: Final = {
    "find_tools": "Find tools",
    "describe_tools": "Describe tools",
    "call_read_tool": "Call a read-only tool",
    "call_tool": "Call a tool",
    "read_more": "Read more of a result",
}


_TEXTS: Final = {
    "find_tools": _FIND,
    "describe_tools": _DESCRIBE,
    "call_read_tool": _CALL_READ,
    "call_tool": _CALL_ANY,
    "read_more": _READ_MORE,
}


def meta_tools(listing: Listing) -> tuple[AgentTool, ...]:
    """Return the meta-tools for the tools of a listing, which the description of `find_tools` summarises.

    They are no tools of the registry: `tool` is "". Their stamps differ whenever their definitions do.
    """
    described = _TEXTS | {"find_tools": _FIND + summarise(listing.tools)}
    return tuple(_definition(name, text) for name, text in described.items())


def meta_tool(name: str) -> AgentTool:
    """Return a meta-tool by its name; the description of `find_tools` has no summary of the tools."""
    return _definition(name, _TEXTS[name])


def read_more_tool() -> AgentTool:
    """Return the meta-tool that reads the rests of results: it is of use beside the tools themselves, too."""
    return _definition("read_more", _READ_MORE)


def _definition(name: str, description: str) -> AgentTool:
    only_reads = name != "call_tool"
    return AgentTool(
        name=name,
        tool="",
        alias=name,
        provider="",
        description=description,
        inputs_json=exact_json.dumps(INPUTS[name]),
        outputs_json=b"{}",
        title=_TITLES[name],
        read_only=only_reads,
        # The others know the gateway only; a call may do what its tool does.
        open_world=name in ("call_read_tool", "call_tool"),
    ).stamped()

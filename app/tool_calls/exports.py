"""Calls of exported tools: back to the names and arguments of the originals, as their export recorded."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import orjson

from app.tool_schemas.aliases import AliasRecord, undo
from app.tool_schemas.convert import alias_record
from app.tool_schemas.dialects import Format, Strict, dialect
from app.tool_schemas.sanitize import UnusableSchema
from app.toolsets import AgentTool


def original_names(name: str, form: Format) -> Sequence[str]:
    """Return the names that a tool may have that was exported by this name, the likeliest first."""
    return (name,) if form == "utcp" else dialect(form).original_names(name)


def original_arguments(arguments: Any, tool: AgentTool, form: Format, strict: Strict) -> Any:
    """Return the arguments of an exported tool as its own schema describes them."""
    if form == "utcp":
        return arguments
    record = _record(tool.inputs_json, form, strict)
    return arguments if record is None else undo(arguments, record)


@lru_cache(maxsize=2_000)
def _record(inputs: bytes, form: Format, strict: Strict) -> AliasRecord | None:
    """Return the record of an export; None where there is nothing to undo, or the tool cannot be exported."""
    try:
        record = alias_record(orjson.loads(inputs), dialect(form), strict)
    except UnusableSchema:
        return None
    return record if record.rule or record.body else None

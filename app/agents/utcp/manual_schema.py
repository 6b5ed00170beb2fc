"""The schema of a UTCP manual, for OpenAPI."""

from typing import Any, Final

MANUAL_COMPONENT: Final = "UtcpManual"
"""The name of the component that `manual_components` returns."""


def manual_components() -> dict[str, Any]:
    """Return the schema of a UTCP manual of either generation, by component name."""
    text = {"type": "string"}
    tool = {"type": "object", "additionalProperties": True}
    schema = {
        "title": MANUAL_COMPONENT,
        "description": "A UTCP manual. One of generation 1 has `utcp_version` and `manual_version`, one of "
        "generation 0 has `version`; the tools are those of the generation.",
        "type": "object",
        "properties": {
            "utcp_version": text,
            "manual_version": text,
            "version": text,
            "tools": {"type": "array", "items": tool},
        },
        "required": ["tools"],
        "additionalProperties": True,
    }
    return {MANUAL_COMPONENT: schema}

"""Shaping the value of a response by the `output` of a call template
(`app.protocols.requests.output_spec`).
"""

import base64
import binascii
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from app.core.text import split_pointer
from app.protocols.requests.output_spec import OutputNode, OutputRequirement, OutputSpec

_ABSENT: Final = object()
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float, Decimal),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


class NotDecodableText(ValueError):
    """A value that is to be decoded is no text in base64."""


def unmet_requirement(spec: OutputSpec, value: Any) -> OutputRequirement | None:
    """Return the first requirement that a value does not meet; None where it meets all."""
    return next((one for one in spec.require if not _is_met(one, value)), None)


def shaped_value(spec: OutputSpec, value: Any, arguments: Mapping[str, Any]) -> Any:
    """Return the result that a spec makes of a value and the arguments of the call, None where it finds
    nothing.

    Raise NotDecodableText.
    """
    found = _shaped(spec, value, arguments)
    return None if found is _ABSENT else found


def _shaped(node: OutputNode, value: Any, arguments: Mapping[str, Any]) -> Any:
    if node.argument is not None:
        found = _at(arguments, node.argument)
    elif node.source is not None:
        found = _at(value, node.source)
    else:
        found = value
    if found is _ABSENT or found is None:
        return _ABSENT if node.default is None else node.default
    if node.members is not None:
        inner = {name: _shaped(one, found, arguments) for name, one in node.members.items()}
        return {name: one for name, one in inner.items() if one is not _ABSENT}
    if node.each is not None:
        if not isinstance(found, list):
            return _ABSENT if node.default is None else node.default
        items = (_shaped(node.each, item, arguments) for item in found)
        return [None if item is _ABSENT else item for item in items]
    return _decoded(found) if node.decode is not None else found


def _decoded(text: Any) -> str:
    if not isinstance(text, str):
        raise NotDecodableText
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise NotDecodableText from None
    return raw.decode("utf-8", "replace")


def _is_met(requirement: OutputRequirement, value: Any) -> bool:
    found = _at(value, requirement.pointer)
    if found is _ABSENT:
        return False
    if requirement.type is not None:
        is_type = isinstance(found, _TYPES[requirement.type])
        if not is_type or (isinstance(found, bool) and requirement.type == "number"):
            return False
    # In Python 1 equals True.
    return requirement.const is None or (
        found == requirement.const and isinstance(found, bool) == isinstance(requirement.const, bool)
    )


def _at(value: Any, pointer: str) -> Any:
    for part in split_pointer(pointer):
        if isinstance(value, Mapping):
            if part not in value:
                return _ABSENT
            value = value[part]
        elif isinstance(value, list):
            if not (part.isascii() and part.isdigit()) or int(part[:10]) >= len(value) or len(part) > 10:
                return _ABSENT
            value = value[int(part)]
        else:
            return _ABSENT
    return value

"""Names that every client accepts: tools `^[a-zA-Z0-9_-]{1,64}$`, inputs `^[a-zA-Z0-9_.-]{1,64}$`.

Names depend on the document alone. Names that are legal unchanged are assigned first, so that an operation
keeps its name when others are added; a name that is shortened or collides gets a digest of its own identity.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.openapi.conversion.parameters import LOCATIONS, Parameter

MAX_LENGTH = 64
_TOOL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TOOL_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]+")
_INPUT = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_INPUT_ILLEGAL = re.compile(r"[^a-zA-Z0-9_.-]+")


def _digest(*identity: str) -> str:
    return hashlib.sha256("\n".join(identity).encode("utf-8", "replace")).hexdigest()[:8]


def _with_digest(name: str, *identity: str) -> str:
    return f"{name[: MAX_LENGTH - 9].rstrip('_-.') or 'x'}_{_digest(*identity)}"


def tool_names(operations: Mapping[str, Any]) -> dict[str, str]:
    """Return a unique legal name for each source key ("GET /pets"); `operations` maps it to its operationId
    or None.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for source_key, given in operations.items():
        if isinstance(given, str) and _TOOL.fullmatch(given) and given not in taken:
            names[source_key] = given
            taken.add(given)
    for source_key, given in operations.items():
        if source_key in names:
            continue
        name = _build_candidate(source_key, given)
        if len(name) > MAX_LENGTH or name in taken:
            name = _with_digest(name, source_key)
        while name in taken:
            # Two equal digests: extremely unlikely, but still resolved.
            name = _with_digest(name, source_key, name)
        names[source_key] = name
        taken.add(name)
    return names


def _build_candidate(source_key: str, given: Any) -> str:
    if isinstance(given, int | float) and not isinstance(given, bool):
        given = str(given)
    if isinstance(given, str):
        name = _TOOL_ILLEGAL.sub("_", given).strip("_-")
        # Little may remain of an id in another script; then method and path make a better name.
        if name and len(re.sub(r"\W|_", "", given)) <= 2 * len(name):
            return name
    method, _, path = source_key.partition(" ")
    route = _TOOL_ILLEGAL.sub("_", path).strip("_-")
    return f"{method.lower()}_{route or 'root'}"


def choose_input_names(parameters: Sequence[Parameter], *, has_body: bool) -> list[str]:
    """Return the key of each parameter in the arguments, in the same order; `body` is reserved for a body.

    Of parameters of the same name, the first of path, query, header and cookie keeps it; the others get their
    location as a suffix.
    """
    ranked = sorted(
        range(len(parameters)),
        key=lambda i: (not _INPUT.fullmatch(parameters[i].name), LOCATIONS.index(parameters[i].location), i),
    )
    taken = {"body"} if has_body else set[str]()
    names: dict[int, str] = {}
    for i in ranked:
        parameter = parameters[i]
        name = _INPUT_ILLEGAL.sub("_", parameter.name)
        if name != parameter.name:
            name = name.strip("_") or "parameter"
        if len(name) > MAX_LENGTH:
            name = _with_digest(name, parameter.name)
        if name in taken:
            name = f"{name}_{parameter.location}"
        if name in taken or len(name) > MAX_LENGTH:
            name = _with_digest(name, parameter.location, parameter.name)
        while name in taken:
            name = _with_digest(name, parameter.location, parameter.name, name)
        names[i] = name
        taken.add(name)
    return [names[i] for i in range(len(parameters))]

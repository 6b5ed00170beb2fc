"""OpenAPI Overlay 1.0: a list of changes that is applied to a document before it is converted.

Overlay Specification 1.0.0 section 4.4: actions in order, each with a JSONPath (RFC 9535) `target` and
`update` (merged into each object, appended to each array) or `remove`. Nested filters take time polynomial in
the document's size, so the CPU time of all actions is limited.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from app.core.errors import FieldError, InvalidDocument, TooLarge
from app.formats.archive import DocumentLimits
from app.openapi.model import Json
from app.openapi.reading.json_path import JSONPaths, Parts, limit_cpu
from app.openapi.reading.load import load_value, measure

MAX_ACTIONS: Final = 1_000
MAX_OVERLAY_BYTES: Final = 1 << 20
"""Bytes of an overlay document."""
_VERSION: Final = re.compile(r"1(?:\.\d+){0,2}")
_MAX_TARGET: Final = 2_000
Warn = Callable[[str, str], None]


def read_overlay(text: str, *, limits: DocumentLimits) -> list[Json]:
    """Parse an overlay document in JSON or YAML; return its actions.

    Raises InvalidDocument with pointers below `/overlay`, or TooLarge.
    """
    content = text.encode("utf-8", "replace")
    if len(content) > MAX_OVERLAY_BYTES:
        raise TooLarge(f"An overlay may have at most {MAX_OVERLAY_BYTES} bytes")
    try:
        raw = load_value(content, media_type="", limits=limits, warn=lambda _pointer, _detail: None)
    except InvalidDocument as problem:
        detail = problem.detail.replace("The document", "The overlay", 1)
        raise InvalidDocument(detail, errors=[FieldError("/overlay", detail)]) from None
    if not isinstance(raw, dict) or not _VERSION.fullmatch(str(raw.get("overlay"))):
        raise _reject_overlay("", "Must be an Overlay 1.0 document, with `overlay: 1.0.0` and `actions`.")
    actions = raw.get("actions")
    if not isinstance(actions, list) or not actions or len(actions) > MAX_ACTIONS:
        raise _reject_overlay("/actions", f"Must be a list of 1 to {MAX_ACTIONS} actions.")
    paths = JSONPaths()
    for number, action in enumerate(actions):
        _check_action(paths, action, f"/actions/{number}")
    return actions


def apply_overlay(raw: Json, actions: list[Json], *, limits: DocumentLimits, warn: Warn) -> Json:
    """Return a copy of the document with the actions applied. An action that selects nothing gives a warning.

    Raises InvalidDocument where the result is not an object, TooLarge beyond `limits.nodes` or
    `limits.overlay_seconds`.
    """
    seconds = limits.overlay_seconds
    with limit_cpu(seconds, f"The overlay takes more than {seconds:g} seconds of CPU time"):
        changed = _apply_actions(raw, actions, limits, warn)
    if not isinstance(changed, dict):
        raise InvalidDocument("The overlay removes the whole document")
    # Files of a bundle are nested two levels deeper than in their own document.
    measure(changed, replace(limits, depth=limits.depth + 2))
    return changed


def _apply_actions(raw: Json, actions: list[Json], limits: DocumentLimits, warn: Warn) -> Any:
    # YAML aliases are one object in several places, of which an action may select only one.
    changed: Any = _copy_value(raw)
    paths = JSONPaths()
    added = 0
    for number, action in enumerate(actions):
        selected = _find_nodes(paths, action["target"], changed, number)
        for pattern in sorted(paths.unusable):
            warn("", f"action {number} of the overlay has a pattern that is not an I-Regexp: {pattern[:200]}")
        paths.unusable.clear()
        if not selected:
            warn("", f"action {number} of the overlay selects nothing: {action['target'][:200]}")
        elif action.get("remove") is True:
            changed = _remove_nodes(changed, selected)
        elif "update" in action:
            added += len(selected) * _count_values(action["update"])
            if added > limits.nodes:
                raise TooLarge(f"The overlay adds more than {limits.nodes} values")
            for parts in selected:
                _update(changed, parts, action["update"], number, warn)
    return changed


def _check_action(paths: JSONPaths, action: Any, pointer: str) -> None:
    if not isinstance(action, dict) or not isinstance(action.get("target"), str):
        raise _reject_overlay(pointer, "Must be an object with a `target`.")
    if "update" not in action and action.get("remove") is not True:
        raise _reject_overlay(pointer, "Must have `update`, or `remove: true`.")
    if len(action["target"]) > _MAX_TARGET:
        raise _reject_overlay(f"{pointer}/target", f"Must have at most {_MAX_TARGET} characters.")
    try:
        paths.check(action["target"])
    except ValueError:
        raise _reject_overlay(f"{pointer}/target", "Must be a JSONPath (RFC 9535).") from None


def _find_nodes(paths: JSONPaths, target: str, changed: Any, number: int) -> list[Parts]:
    try:
        return paths.find(target, changed)
    except ValueError:
        raise _reject_overlay(
            f"/actions/{number}/target", "Must be a JSONPath that can be evaluated."
        ) from None


def _remove_nodes(changed: Any, selected: list[Parts]) -> Any:
    # From the back, so that the indexes of a list stay valid.
    for parts in sorted(
        selected, key=lambda parts: (len(parts), [_order_part(part) for part in parts]), reverse=True
    ):
        if not parts:
            return None
        parent = _get_node(changed, parts[:-1])
        if parent is not None:
            del parent[parts[-1]]
    return changed


def _order_part(part: str | int) -> tuple[int, int, str]:
    return (0, part, "") if isinstance(part, int) else (1, 0, part)


def _update(changed: Any, parts: Parts, update: Any, number: int, warn: Warn) -> None:
    node = _get_node(changed, parts)
    if isinstance(node, list):
        node.append(_copy_value(update))
    elif isinstance(node, dict) and isinstance(update, dict):
        _merge(node, update)
    else:
        warn("", f"action {number} of the overlay updates what is neither an object nor a list")


def _merge(node: Json, update: Mapping[str, Any]) -> None:
    for key, value in update.items():
        mine = node.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            _merge(mine, value)
        elif isinstance(mine, list) and isinstance(value, list):
            mine.extend(_copy_value(value))
        else:
            node[key] = _copy_value(value)


def _get_node(changed: Any, parts: Parts) -> Any:
    node = changed
    for part in parts:
        node = node[part]
    return node


def _copy_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy_value(member) for key, member in value.items()}
    return [_copy_value(member) for member in value] if isinstance(value, list) else value


def _count_values(value: Any) -> int:
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count_values, members))


def _reject_overlay(pointer: str, detail: str) -> InvalidDocument:
    return InvalidDocument(
        f"The overlay cannot be used: {detail}", errors=[FieldError(f"/overlay{pointer}", detail)]
    )

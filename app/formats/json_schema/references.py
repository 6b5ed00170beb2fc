"""Local references of JSON Schemas: resolves them, rebases the schemas that contain them, or inlines them."""

from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote

Schema = dict[str, Any]

MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
VALUES: Final = frozenset({"enum", "const", "default", "examples"})
DEFINITIONS: Final = ("$defs", "definitions")

# Inlining is exponential in the worst case: what does not fit becomes `{}`.
_MAX_NODES: Final = 5_000
_MAX_DEPTH: Final = 24


def resolve(root: Any, reference: str) -> Any:
    """Return the value that a local reference (`#`, `#/a/b`; RFC 6901 section 6) points to; raise LookupError
    where there is none.
    """
    if reference != "#" and not reference.startswith("#/"):
        raise LookupError(reference)
    node = root
    for part in reference.split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and key.isdecimal() and len(key) < 10:
            node = node[int(key)]
        elif isinstance(node, dict):
            node = node[key]
        else:
            raise LookupError(reference)
    return node


def drop_dangling(root: Schema, *, base: str = "", keeps_anchors: bool = True) -> list[str]:
    """Remove, in place, each `$ref` that points to no schema in `root`; return those references.

    A reference to the document's own `$id` (`base`) becomes local. With `keeps_anchors`
    one to an `$anchor` stays.
    """
    lost: dict[str, None] = {}
    prefix = base.partition("#")[0]
    anchors = {node["$anchor"] for node in list_schemas(root) if isinstance(node.get("$anchor"), str)}
    for node in list_schemas(root):
        reference = node.get("$ref")
        if not isinstance(reference, str):
            continue
        if prefix and reference.startswith(prefix + "#"):
            reference = node["$ref"] = reference[len(prefix) :]
        if not (keeps_anchors and reference[1:] in anchors) and not _can_resolve(root, reference):
            lost[reference] = None
            del node["$ref"]
    return list(lost)


def transform(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Return the schema with `change` applied to it and to every schema below it, from the root down.

    Values in `enum`, `const`, `default` and `examples` are not schemas, whatever they look like.
    """

    def transform_member(key: str, value: Any) -> Any:
        if key in VALUES:
            return value
        if key in MAPS and isinstance(value, dict):
            return {name: transform_below(schema) for name, schema in value.items()}
        return (
            [transform_below(entry) for entry in value] if isinstance(value, list) else transform_below(value)
        )

    def transform_below(node: Any) -> Any:
        return transform(node, change) if isinstance(node, dict) else node

    return {key: transform_member(key, value) for key, value in change(schema).items()}


def rebase(schema: Schema, prefix: str) -> Schema:
    """Return the schema with its references adapted to a location (`prefix`, like `/properties/body`) in a
    new document.

    References to `$defs` and `definitions` stay, because these are hoisted to the new root.
    """

    def rebase_node(node: Schema) -> Schema:
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            rest = reference[1:]
            if not rest.startswith(tuple(f"/{name}/" for name in DEFINITIONS)):
                return {**node, "$ref": f"#{prefix}{rest}"}
        return node

    return transform(schema, rebase_node)


def inline_references(schema: Schema) -> Schema:
    """Return the schema with every local reference replaced by its target, and without `$defs`.

    A reference that recurs on one path, or is deeper than 24 references, becomes `{}` with a description that
    says so; beyond 5,000 nodes, every schema becomes `{}`.
    """
    inlined = _Inlining(schema).inline_node(schema, ())
    return {key: value for key, value in inlined.items() if key not in DEFINITIONS}


class _Inlining:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes_left = _MAX_NODES

    def inline_node(self, node: Any, path: tuple[str, ...]) -> Any:
        if not isinstance(node, dict):
            return node
        self._nodes_left -= 1
        if self._nodes_left < 0:
            return {}
        reference = node.get("$ref")
        if isinstance(reference, str):
            return self._inline_target(reference, {k: v for k, v in node.items() if k != "$ref"}, path)
        return {
            key: value
            if key in VALUES
            else {name: self.inline_node(member, path) for name, member in value.items()}
            if key in MAPS and isinstance(value, dict)
            else [self.inline_node(member, path) for member in value]
            if isinstance(value, list)
            else self.inline_node(value, path)
            for key, value in node.items()
            if key not in DEFINITIONS
        }

    def _inline_target(self, reference: str, siblings: Schema, path: tuple[str, ...]) -> Any:
        beside = self.inline_node(siblings, path)
        name = reference.rpartition("/")[2]
        if reference in path or len(path) >= _MAX_DEPTH:
            return {"description": f"Recursive: {name}.", **beside}
        try:
            target = resolve(self._root, reference)
        except LookupError:
            return beside
        inlined = self.inline_node(target, (*path, reference))
        return {**inlined, **beside} if isinstance(inlined, dict) else beside


def _can_resolve(root: Schema, reference: str) -> bool:
    try:
        return isinstance(resolve(root, reference), dict)
    except LookupError:
        return False


def list_schemas(node: Any) -> Iterator[Schema]:
    """Yield every schema in `node`, itself first; not maps of schemas by name, nor values."""
    if not isinstance(node, dict):
        return
    yield node
    for key, value in list(node.items()):
        if key in VALUES:
            continue
        members = value if isinstance(value, list) else [value]
        if key in MAPS:
            members = list(value.values()) if isinstance(value, dict) else []
        for member in members:
            yield from list_schemas(member)

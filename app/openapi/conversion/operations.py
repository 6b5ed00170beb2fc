"""Lists the operations of a document, each with its Path Item; webhooks and callbacks are not included."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.core.errors import FieldError, InvalidDocument, TooLarge
from app.openapi.model import METHODS, Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.reading.refs import RefProblem, escape_token

# RFC 9110 section 5.6.2: a method is a token. The longest registered one has 17 characters.
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path; `node` is the unchecked value of the document there, `item` the Path Item."""

    source_key: str
    method: str
    path: str
    pointer: str
    node: Any
    item: Json
    item_pointer: str

    @property
    def given_name(self) -> Any:
        """The operationId, of whatever type it is; None where there is none."""
        return self.node.get("operationId") if isinstance(self.node, dict) else None


def list_operations(document: OpenApiDocument) -> list[Operation]:
    """Return all operations in the order of the document.

    Raises InvalidDocument if `paths` is not an object, and TooLarge beyond the limit of operations.
    """
    paths = document.raw.get("paths")
    if paths is None:
        document.warnings.add("/paths", "the document has no paths")
        return []
    if not isinstance(paths, dict):
        raise InvalidDocument("`paths` is not an object", errors=[FieldError("/paths", "Must be an object.")])
    operations: dict[str, Operation] = {}
    for path, item in paths.items():
        if path.lower().startswith("x-"):
            continue
        for operation in _of_path(document, path, item):
            if operation.source_key in operations:
                document.warnings.add(operation.pointer, "a path has the same method twice")
                continue
            operations[operation.source_key] = operation
            if len(operations) > document.options.limits.operations:
                raise TooLarge(f"The document has more than {document.options.limits.operations} operations")
    return list(operations.values())


def _of_path(document: OpenApiDocument, path: str, item: Any) -> Iterator[Operation]:
    pointer = f"/paths/{escape_token(path)}"
    if not isinstance(item, dict):
        if item is not None:
            document.warnings.add(pointer, "a path that is not an object was left out")
        return
    whole, item_pointer = item, pointer
    if isinstance(item.get("$ref"), str):
        try:
            resolved = document.references.follow(item, location=pointer)
        except RefProblem as problem:
            document.warnings.add(problem.pointer, f"a path {problem.reason}; it was left out")
            return
        item_pointer = resolved.pointer
        beside = {key: value for key, value in item.items() if key != "$ref"}
        whole = {**(resolved.node if isinstance(resolved.node, dict) else {}), **beside}
    for method, node, tokens in _list_methods(document, whole, pointer):
        base_pointer = item_pointer if tokens[0] not in item else pointer
        yield Operation(
            source_key=f"{method} {path}",
            method=method,
            path=path,
            pointer=base_pointer + "".join(f"/{escape_token(token)}" for token in tokens),
            node=node,
            item=whole,
            item_pointer=item_pointer,
        )


def _list_methods(
    document: OpenApiDocument, item: Json, pointer: str
) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield each method of a Path Item, its operation, and where that is in the item.

    The fields of 3.2 are read in every 3.x; a `query` that is not an object has another meaning there.
    """
    for key, node in item.items():
        method = key.lower()
        if method in METHODS or (method == "query" and _may_be_operation(document, node)):
            yield method.upper(), node, (key,)
        elif key == "additionalOperations" and document.version != "2.0":
            if isinstance(node, dict):
                yield from _list_additional(document, node, f"{pointer}/{key}")
            else:
                document.warnings.add(
                    f"{pointer}/{key}", "`additionalOperations` is not an object and was left out"
                )


def _may_be_operation(document: OpenApiDocument, node: Any) -> bool:
    return document.version == "3.2" or (document.version != "2.0" and isinstance(node, dict))


def _list_additional(
    document: OpenApiDocument, listed: Json, pointer: str
) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield the operations of `additionalOperations`, whose keys are methods in the case that is sent."""
    for key, node in listed.items():
        where = f"{pointer}/{escape_token(key)}"
        if not _METHOD.fullmatch(key):
            document.warnings.add(where, "a method that HTTP does not allow was left out")
        elif key.lower() in (*METHODS, "query"):
            document.warnings.add(where, f"`{key}` has a field of its own in the Path Item Object")
            yield key.upper(), node, ("additionalOperations", key)
        else:
            yield key, node, ("additionalOperations", key)

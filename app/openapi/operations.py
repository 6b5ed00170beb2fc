"""Lists the operations of a document, each with its Path Item; webhooks and callbacks are not included."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.errors import FieldError, InvalidDocument, TooLarge
from app.openapi.document import OpenApiDocument
from app.openapi.model import METHODS, Json
from app.openapi.refs import RefProblem, escape


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
        raise InvalidDocument("`paths` is not an object", errors=[FieldError("/paths", "Give an object.")])
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
    pointer = f"/paths/{escape(path)}"
    if not isinstance(item, dict):
        if item is not None:
            document.warnings.add(pointer, "a path that is not an object was left out")
        return
    whole, item_pointer = item, pointer
    if isinstance(item.get("$ref"), str):
        try:
            found = document.references.follow(item, at=pointer)
        except RefProblem as problem:
            document.warnings.add(problem.pointer, f"a path {problem.reason}; it was left out")
            return
        item_pointer = found.pointer
        beside = {key: value for key, value in item.items() if key != "$ref"}
        whole = {**(found.node if isinstance(found.node, dict) else {}), **beside}
    for key, node in whole.items():
        method = key.lower()
        if method in METHODS:
            yield Operation(
                source_key=f"{method.upper()} {path}",
                method=method.upper(),
                path=path,
                pointer=f"{item_pointer if key not in item else pointer}/{key}",
                node=node,
                item=whole,
                item_pointer=item_pointer,
            )

"""A document during its conversion: the raw mapping and the state that the stages share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.core.errors import InvalidDocument
from app.openapi.model import ConvertOptions, Json
from app.openapi.reading.identifiers import Identifiers
from app.openapi.reading.refs import References
from app.openapi.report import UnreadFields, Warnings
from app.openapi.schemas.closure import SchemaRegistry


@dataclass(slots=True)
class OpenApiDocument:
    """A loaded document; `version` is "2.0", "3.0", "3.1" or "3.2", `memo` the results of stages for shared
    nodes. `operation_notes` are those of the document's translation, by the pointer of the operation.
    """

    raw: Json
    version: str
    options: ConvertOptions
    warnings: Warnings
    unread: UnreadFields
    references: References
    schemas: SchemaRegistry
    memo: dict[tuple[str, int], tuple[Any, Any]] = field(default_factory=dict)
    operation_notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def get_mapping(self, *path: str) -> Json:
        """Return the object at a path from the root, or {} where there is none."""
        node: Any = self.raw
        for key in path:
            node = node.get(key) if isinstance(node, dict) else None
        return node if isinstance(node, dict) else {}


def open_document(
    raw: Json, *, options: ConvertOptions, warnings: Warnings, may_have_identifiers: bool
) -> OpenApiDocument:
    """Return the document with its version; `may_have_identifiers` tells that it may contain `$id`s and
    anchors.

    Raises InvalidDocument for versions that are not supported.
    """
    version = _read_version(raw, warnings)
    identifiers = (
        Identifiers.of(raw, url=options.url or "")
        if may_have_identifiers and version in ("3.1", "3.2")
        else None
    )
    references = References(raw, identifiers, overrides=version in ("3.1", "3.2"))
    unread = UnreadFields()
    schemas = SchemaRegistry(references, version=version, warnings=warnings, unread=unread)
    return OpenApiDocument(raw, version, options, warnings, unread, references, schemas)


def _read_version(raw: Json, warnings: Warnings) -> str:
    # YAML authors write `openapi: 3.0`, which is a number.
    declared = str(raw.get("openapi", raw.get("swagger"))).strip()
    if declared == "2" or declared.startswith("2.0"):
        return "2.0"
    if declared == "3" or declared.startswith("3.0"):
        return "3.0"
    if declared.startswith("3.1"):
        return "3.1"
    if declared.startswith("3."):
        if not declared.startswith("3.2"):
            warnings.add("/openapi", f"version {declared[:20]} is read as 3.2")
        return "3.2"
    raise InvalidDocument(
        f"Version {declared[:20]!r} is not supported; Swagger 2.0 and OpenAPI 3.0, 3.1 and 3.2 are"
    )

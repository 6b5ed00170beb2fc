"""Options and limits of a conversion: frozen dataclasses that are also sent as JSON between processes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from app.formats.archive import DocumentLimits

Json = dict[str, Any]
"""A JSON object whose members are not ours: a part of an OpenAPI document, a JSON Schema, a call template."""
OUTPUT_EXTENSION: Final = "x-utcp-output"
"""The extension of an operation with `output`, the shape of its result (`http_requests.output_spec`), and
`schema`, the JSON Schema of what comes of it.
"""

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
"""The methods that have a field of their own in the Path Item Object of every 3.x; 3.2 adds `query`."""


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """Options for the conversion of one document.

    `url` is the URL of the document: relative servers and token URLs are resolved against it (RFC 3986).
    `base_url` takes precedence over `url` for servers that are relative or missing, and stands in for server
    URLs with variables; other absolute servers stay unchanged. `server` chooses one of several, by its index
    in the document's list, its name, description or URL, and `server_variables` has values of variables.
    `media_type` is the Content-Type it was received with, if any. `root` is the path of the document inside a
    zip archive, where several are equally close to the root folder. `overlay` is the text of an Overlay 1.0
    document that is applied to it. `list_missing` requests the list of other files, relative to `url`, that
    the document refers to: see `Conversion.missing`.
    """

    url: str | None = None
    base_url: str | None = None
    server: str | int | None = None
    server_variables: Mapping[str, str] = field(default_factory=dict)
    media_type: str | None = None
    root: str | None = None
    overlay: str | None = None
    list_missing: bool = False
    limits: DocumentLimits = field(default_factory=DocumentLimits)

    def to_json(self) -> Json:
        """Return the options as JSON, for the child process."""
        return asdict(self)

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "ConvertOptions":
        """Build a ConvertOptions from what `to_json` returned."""
        return cls(**{**form, "limits": DocumentLimits(**form["limits"])})

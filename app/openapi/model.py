"""Inputs and results of a conversion: frozen dataclasses that are also sent as JSON between processes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

#: A JSON object; its members are named in the docstring of what creates it.
Json = dict[str, Any]

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Limits beyond which a document is rejected. Sizes are in bytes, `overlay_seconds` is CPU time.

    The defaults are well above the largest real document known (47 MB of JSON, 22,361 operations; the largest
    input schema has 1.3 MB). Nothing is validated against the schema of a response, so `output_schema_size`
    is smaller than `tool_size`.
    """

    size: int = 64 * 2**20
    yaml_size: int = 16 * 2**20
    depth: int = 100
    nodes: int = 4_000_000
    yaml_nodes: int = 1_000_000
    aliases: int = 100
    operations: int = 50_000
    parameters: int = 2_000
    tool_size: int = 2 * 2**20
    output_schema_size: int = 32 * 2**10
    output_size: int = 1024 * 2**20
    output_factor: int = 48
    overlay_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """Options for the conversion of one document.

    `url` is the URL of the document: relative servers and token URLs are resolved against it (RFC 3986).
    `base_url` takes precedence over `url` for servers that are relative or missing; absolute servers stay
    unchanged. `media_type` is the Content-Type it was received with, if any. `root` is the path of the
    document inside a zip archive, where several are equally close to the root folder. `overlay` is the text
    of an Overlay 1.0 document that is applied to it. `gathers` requests the list of other files, relative to
    `url`, that the document refers to: see `Conversion.missing`.
    """

    url: str | None = None
    base_url: str | None = None
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


@dataclass(frozen=True, slots=True)
class ConvertedTool:
    """One operation as a tool.

    `source_key` is "GET /pets/{petId}"; `name` matches `^[a-zA-Z0-9_-]{1,64}$` and is unique in the document;
    `inputs` and `outputs` are JSON Schema 2020-12 (outputs may be `{}`), with `$defs` of their own;
    `call_template` contains the argument plan (`parameters`, `body`); `security` is an OR of ANDs of slots;
    `shown` is what a model sees instead of description, inputs and outputs (`slim`), None where these are
    small.
    """

    source_key: str
    name: str
    description: str
    inputs: Json
    outputs: Json
    tags: tuple[str, ...]
    deprecated: bool
    call_template: Json
    security: list[list[Json]]
    notes: tuple[str, ...] = ()
    shown: Json | None = None

    def to_json(self) -> Json:
        """Return the tool as JSON. Schemas are shared with it, not copied: treat the result as read-only."""
        return {
            "source_key": self.source_key,
            "name": self.name,
            "description": self.description,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "tags": list(self.tags),
            "deprecated": self.deprecated,
            "call_template": self.call_template,
            "security": self.security,
            "notes": list(self.notes),
            "shown": self.shown,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "ConvertedTool":
        """Build a ConvertedTool from what `to_json` returned."""
        return cls(**{**form, "tags": tuple(form["tags"]), "notes": tuple(form["notes"])})


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of converting a document.

    `slots`: one object per security scheme in use: slot, scheme (its name in the document), kind (api_key,
    basic, bearer, oauth2, unsupported), scheme_type, location, name, token_url, scopes, flows, description,
    origin_hint.
    `origins`: "https://host[:port]" of the servers that the tools call, in order of first use.
    `report`: {"counts", "operations", "warnings"}, as in the response to every import.
    `missing`: paths of files that the document (`gathers`) or the archive refers to and does not contain.
    """

    title: str
    version: str
    description: str
    tools: tuple[ConvertedTool, ...]
    slots: tuple[Json, ...]
    origins: tuple[str, ...]
    report: Json
    missing: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """Return the conversion as JSON; see `ConvertedTool.to_json` about sharing."""
        return {
            "title": self.title,
            "version": self.version,
            "description": self.description,
            "tools": [tool.to_json() for tool in self.tools],
            "slots": list(self.slots),
            "origins": list(self.origins),
            "report": self.report,
            "missing": list(self.missing),
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Conversion":
        """Build a Conversion from what `to_json` returned."""
        return cls(
            title=form["title"],
            version=form["version"],
            description=form["description"],
            tools=tuple(ConvertedTool.from_json(tool) for tool in form["tools"]),
            slots=tuple(form["slots"]),
            origins=tuple(form["origins"]),
            report=form["report"],
            missing=tuple(form["missing"]),
        )

    def to_bytes(self) -> bytes:
        """Return `to_json` as UTF-8 bytes; the same document always gives the same bytes."""
        return orjson.dumps(self.to_json())

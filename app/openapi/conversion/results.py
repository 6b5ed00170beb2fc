"""Results of a conversion: frozen dataclasses that are also sent as JSON between processes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.core import exact_json
from app.openapi.assessment.slim import SlimmedTool
from app.openapi.model import Json
from app.openapi.report import SourceReport
from app.security.requirements import SecurityRequirements, compile_security, security_json

SchemeKind = Literal[
    "api_key", "basic", "bearer", "oauth2", "digest", "aws_sigv4", "mutual_tls", "unsupported"
]


@dataclass(frozen=True, slots=True)
class SecuritySchemeSlot:
    """A security scheme of the document as a slot for a credential.

    `name` is that of the slot, `scheme` that of the scheme in the document, and `scheme_type` its type, such
    as "http digest". `location` (header, query, cookie) and `parameter` say where an API key goes.
    `http_scheme` is sent before the credentials of a bearer, where it is not `Bearer`. `token_url`, `scopes`
    and `flows` are those of OAuth2; `metadata_url` is where its token URL is found. `origin_hint` is the
    origin of the first tool that needs the slot.
    """

    name: str
    scheme: str
    kind: SchemeKind = "unsupported"
    scheme_type: str = "undefined"
    location: str | None = None
    parameter: str | None = None
    http_scheme: str | None = None
    token_url: str | None = None
    metadata_url: str | None = None
    scopes: tuple[str, ...] = ()
    flows: tuple[str, ...] = ()
    description: str = ""
    origin_hint: str | None = None

    def to_json(self) -> Json:
        """Return the slot as JSON; its members `slot` and `name` are `name` and `parameter`."""
        return {
            "slot": self.name,
            "scheme": self.scheme,
            "kind": self.kind,
            "scheme_type": self.scheme_type,
            "location": self.location,
            "name": self.parameter,
            "http_scheme": self.http_scheme,
            "token_url": self.token_url,
            "metadata_url": self.metadata_url,
            "scopes": list(self.scopes),
            "flows": list(self.flows),
            "description": self.description,
            "origin_hint": self.origin_hint,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "SecuritySchemeSlot":
        """Return the slot that `to_json` wrote."""
        return cls(
            name=form["slot"],
            scheme=form["scheme"],
            kind=form["kind"],
            scheme_type=form["scheme_type"],
            location=form["location"],
            parameter=form["name"],
            http_scheme=form["http_scheme"],
            token_url=form["token_url"],
            metadata_url=form["metadata_url"],
            scopes=tuple(form["scopes"]),
            flows=tuple(form["flows"]),
            description=form["description"],
            origin_hint=form["origin_hint"],
        )


@dataclass(frozen=True, slots=True)
class ConvertedTool:
    """One operation as a tool.

    `source_key` is "GET /pets/{petId}"; `name` matches `^[a-zA-Z0-9_-]{1,64}$` and is unique in the document;
    `inputs` and `outputs` are JSON Schema 2020-12 (outputs may be `{}`), with `$defs` of their own;
    `call_template` contains the argument plan (`parameters`, `body`); `slimmed` is what a model sees instead
    of description, inputs and outputs, None where these are small.
    """

    source_key: str
    name: str
    description: str
    inputs: Json
    outputs: Json
    tags: tuple[str, ...]
    deprecated: bool
    call_template: Json
    security: SecurityRequirements
    keywords: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    slimmed: SlimmedTool | None = None

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
            "security": security_json(self.security),
            "keywords": list(self.keywords),
            "notes": list(self.notes),
            "slimmed": None if self.slimmed is None else self.slimmed.to_json(),
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "ConvertedTool":
        """Return the tool that `to_json` wrote."""
        slimmed = form["slimmed"]
        return cls(
            source_key=form["source_key"],
            name=form["name"],
            description=form["description"],
            inputs=form["inputs"],
            outputs=form["outputs"],
            tags=tuple(form["tags"]),
            deprecated=form["deprecated"],
            call_template=form["call_template"],
            security=compile_security(form["security"]),
            keywords=tuple(form["keywords"]),
            notes=tuple(form["notes"]),
            slimmed=None if slimmed is None else SlimmedTool.from_json(slimmed),
        )


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of converting a document.

    `slots`: one for each security scheme in use.
    `origins`: "https://host[:port]" of the servers that the tools call, in order of first use.
    `missing`: paths of files that the document (`list_missing`) or the archive refers to and does not
    contain.
    `language`: the language tag (BCP 47) of its texts, where it says one.
    """

    title: str
    version: str
    description: str
    tools: tuple[ConvertedTool, ...]
    slots: tuple[SecuritySchemeSlot, ...]
    origins: tuple[str, ...]
    report: SourceReport
    missing: tuple[str, ...] = ()
    language: str | None = None

    def to_json(self) -> Json:
        """Return the conversion as JSON; see `ConvertedTool.to_json` about sharing."""
        return {
            "title": self.title,
            "version": self.version,
            "description": self.description,
            "tools": [tool.to_json() for tool in self.tools],
            "slots": [slot.to_json() for slot in self.slots],
            "origins": list(self.origins),
            "report": self.report.to_json(),
            "missing": list(self.missing),
            "language": self.language,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Conversion":
        """Return the conversion that `to_json` wrote."""
        return cls(
            title=form["title"],
            version=form["version"],
            description=form["description"],
            tools=tuple(ConvertedTool.from_json(tool) for tool in form["tools"]),
            slots=tuple(SecuritySchemeSlot.from_json(slot) for slot in form["slots"]),
            origins=tuple(form["origins"]),
            report=SourceReport.from_json(form["report"]),
            missing=tuple(form["missing"]),
            language=form["language"],
        )

    def to_bytes(self) -> bytes:
        """Return `to_json` as UTF-8 bytes; the same document always gives the same bytes."""
        return exact_json.dumps(self.to_json())

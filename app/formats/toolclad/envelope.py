"""The evidence of a call, and the envelope that is made of it: the same evidence gives the same bytes.

The hash is that of the output before it is parsed, as the client may see it: secrets are masked in it.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self
from uuid import UUID

import orjson

from app.core import exact_json
from app.formats.toolclad.contract import Contract, OutputRule
from app.formats.toolclad.outputs import parse_output

MEDIA_TYPE: Final = "application/vnd.toolclad.envelope+json"
Status = Literal["success", "error", "timeout", "client_error", "server_error"]
ENVELOPE_SCHEMA: Final[dict[str, Any]] = {
    "title": "EvidenceEnvelope",
    "description": "The evidence of a call of a ToolClad tool; requests and tools of MCP add members.",
    "type": "object",
    "properties": {
        "status": {"enum": ["success", "error", "timeout", "client_error", "server_error"]},
        "scan_id": {"type": "string", "description": "`<unix seconds>-<5 hex>`."},
        "tool": {"type": "string", "description": "The name in the manifest."},
        "command": {"type": "string", "description": "What was executed, secrets masked."},
        "duration_ms": {"type": "number"},
        "timestamp": {"type": "string", "format": "date-time"},
        "exit_code": {"type": "integer", "description": "-1 for a timeout and other failures."},
        "stderr": {"type": "string"},
        "output_file": {"type": "string"},
        "output_hash": {
            "type": "string", "pattern": "^sha256:[0-9a-f]{64}$", "description": "Of the unparsed output.",
        },
        "http_status": {"type": "integer", "description": "Of a request."},
        "http_method": {"type": "string"},
        "mcp_server": {"type": "string", "description": "Of a tool of an MCP server."},
        "mcp_tool": {"type": "string"},
        "mcp_args": {"type": "object"},
        "results": {"description": "As `[output.schema]` of the manifest describes them; or the error."},
    },
    "required": [
        "status", "scan_id", "tool", "command", "duration_ms", "timestamp", "exit_code", "stderr",
        "output_file", "output_hash", "results",
    ],
}  # fmt: skip
"""The JSON Schema of the envelope, a component of the contract."""
ENVELOPE_REFERENCE: Final = {"$ref": "#/components/schemas/EvidenceEnvelope"}
_FORM: Final = 1
"""The version of the stored form."""
_EXTENSIONS: Final = {"text": "txt"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of an execution.

    `fields` are the members of the envelope but for the hash and the results. `output` are the raw bytes.
    `results` are the results where they are not those that `parser` reads from the output: of a failure, and
    of a parser that is a program.
    """

    fields: Mapping[str, Any]
    output: bytes = field(repr=False)
    parser: str
    results: Any = None
    has_results: bool = False

    @property
    def output_hash(self) -> str:
        """The hash of the output, as the envelope has it."""
        return f"sha256:{hashlib.sha256(self.output).hexdigest()}"

    def envelope(self) -> bytes:
        """Return the envelope as indented JSON; the same bytes for the same evidence."""
        results = self.results if self.has_results else parse_output(self.output, self.parser)
        members = {**self.fields, "output_hash": self.output_hash, "results": results}
        return exact_json.dumps(members, orjson.OPT_INDENT_2)

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as it is stored."""
        form: dict[str, Any] = {
            "form": _FORM,
            "fields": dict(self.fields),
            "output": base64.b64encode(self.output).decode(),
            "parser": self.parser,
        }
        return {**form, "results": exact_json.dumps(self.results).decode()} if self.has_results else form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Self:
        """Return the evidence that `to_json` wrote."""
        has_results = "results" in form
        return cls(
            fields=form["fields"],
            output=base64.b64decode(form["output"]),
            parser=form["parser"],
            results=exact_json.load_exactly(form["results"].encode()) if has_results else None,
            has_results=has_results,
        )


def scan_id_of(call_id: str) -> str:
    """Return the `scan_id` of a call, `<unix seconds>-<5 hex>`; its id, a UUIDv7, begins with the time."""
    identity = UUID(call_id)
    return f"{(identity.int >> 80) // 1000}-{identity.hex[-5:]}"


def name_output(contract: Contract, scan_id: str) -> str:
    """Return the name of the file of a call's output below the folder of its evidence."""
    kind = contract.output.format
    folder = "".join(one if one.isalnum() or one in "._-" else "_" for one in contract.tool)[:100]
    return f"{scan_id}-{folder}/scan.{_EXTENSIONS.get(kind, kind)}"


def choose_parser(rule: OutputRule) -> str:
    """Return the built-in parser by which the output of a rule is read without the program that it names."""
    return rule.parser_name if rule.parser_name.startswith("builtin:") else "builtin:text"

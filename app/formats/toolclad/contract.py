"""What a call template keeps of a manifest: what calls need beyond the inputs of the tool and its origin."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.formats.toolclad.placeholders import list_secret_names

ArgumentType = Literal[
    "string", "integer", "number", "port", "boolean", "enum", "scope_target", "url", "path", "ip_address",
    "cidr", "msf_options", "credential_file", "duration", "regex_match",
]  # fmt: skip
RiskTier = Literal["low", "medium", "high"]
OutputFormat = Literal["text", "json", "xml", "csv", "jsonl"]
BUILT_IN_PARSERS: Final = frozenset(
    {"builtin:text", "builtin:json", "builtin:xml", "builtin:csv", "builtin:jsonl"}
)
MAX_TIMEOUT_SECONDS: Final = 3600
ARGUMENT_NAME: Final = r"^[A-Za-z][A-Za-z0-9_]{0,63}$"
_MAX_TEXT: Final = 65_536

ArgumentName = Annotated[str, Field(pattern=ARGUMENT_NAME)]
TemplateText = Annotated[str, Field(max_length=_MAX_TEXT)]
Scalar = bool | int | float | str


class ManifestModel(BaseModel):
    """The base of models of a manifest: unknown members are errors, and errors contain no values."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class CedarSection(ManifestModel):
    """`[tool.cedar]`: the names by which a Cedar policy knows the tool. They are kept, and not evaluated."""

    resource: str = Field(default="", max_length=500)
    action: str = Field(default="", max_length=500)


class EvidenceSection(ManifestModel):
    """`[tool.evidence]`. The gateway always hashes output with SHA-256."""

    output_dir: str = Field(default="", max_length=2_000)
    capture: bool = True
    hash: Literal["sha256"] = "sha256"


class HttpSection(ManifestModel):
    """`[http]`: a request, with `{argument}` and `{_secret:name}` in its URL, headers and body."""

    method: str = Field(default="GET", pattern=r"^[A-Z]{1,20}$")
    url: str = Field(min_length=1, max_length=8192)
    headers: dict[Annotated[str, Field(max_length=200)], TemplateText] = Field(default_factory=dict)
    body_template: TemplateText | None = None
    success_status: list[Annotated[int, Field(ge=100, le=599)]] = Field(default_factory=list, max_length=100)
    error_status: list[Annotated[int, Field(ge=100, le=599)]] = Field(default_factory=list, max_length=100)

    @field_validator("method", mode="before")
    @classmethod
    def _upper_case(cls, value: Any) -> Any:
        return value.strip().upper() if isinstance(value, str) else value


class Conditional(ManifestModel):
    """A fragment of a command, used where its condition holds."""

    name: ArgumentName
    when: str = Field(min_length=1, max_length=2_000)
    template: TemplateText


class CommandRecord(ManifestModel):
    """`[command]`: the words of a command, or a program that takes its arguments from the environment."""

    exec: list[TemplateText] = Field(default_factory=list, max_length=1_000)
    template: TemplateText = ""
    executor: str = Field(default="", max_length=4_096)
    defaults: dict[ArgumentName, Scalar] = Field(default_factory=dict, max_length=200)
    mappings: dict[ArgumentName, dict[str, TemplateText]] = Field(default_factory=dict, max_length=200)
    conditionals: list[Conditional] = Field(default_factory=list, max_length=200)


class McpSection(ManifestModel):
    """`[mcp]`: a tool of an MCP server; `field_map` gives arguments the names that they have there."""

    server: str = Field(min_length=1, max_length=2_000)
    tool: str = Field(min_length=1, max_length=500)
    field_map: dict[ArgumentName, Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        default_factory=dict, max_length=200
    )


class OutputRule(ManifestModel):
    """How the output becomes the results: `parser` is one of the built-in ones, or a program."""

    format: OutputFormat = "text"
    parser: str = Field(default="", max_length=4_096)
    envelope: bool = True

    @property
    def parser_name(self) -> str:
        """The parser: the one that is named, or that of the format."""
        return self.parser or f"builtin:{self.format}"


class ContractArgument(ManifestModel):
    """What a call needs to know of an argument beyond its JSON Schema."""

    type: ArgumentType
    default: Scalar | None = None
    clamp: bool = False


class Contract(ManifestModel):
    """The manifest of a tool, as its call template has it. Exactly one of http, command and mcp is set."""

    tool: str = Field(min_length=1, max_length=512)
    version: str = Field(default="", max_length=100)
    risk_tier: RiskTier = "low"
    human_approval: bool = False
    timeout_seconds: int = Field(default=60, ge=1, le=MAX_TIMEOUT_SECONDS)
    cedar: CedarSection = Field(default_factory=CedarSection)
    evidence: EvidenceSection = Field(default_factory=EvidenceSection)
    arguments: dict[ArgumentName, ContractArgument] = Field(default_factory=dict, max_length=500)
    output: OutputRule = Field(default_factory=OutputRule)
    http: HttpSection | None = None
    command: CommandRecord | None = None
    mcp: McpSection | None = None

    @property
    def defaults(self) -> dict[str, Any]:
        """The default values of arguments, by name."""
        return {name: one.default for name, one in self.arguments.items() if one.default is not None}

    @property
    def clamped(self) -> frozenset[str]:
        """The names of the arguments that are pulled into their range."""
        return frozenset(name for name, one in self.arguments.items() if one.clamp)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets of the request, each once."""
        if self.http is None:
            return ()
        texts = (self.http.url, *self.http.headers.values(), self.http.body_template or "")
        return tuple(dict.fromkeys(name for text in texts for name in list_secret_names(text)))


def get_risk_tier(template: Mapping[str, Any]) -> RiskTier | None:
    """Return the risk tier of the manifest that a stored call template comes from; None for others."""
    contract = template.get("toolclad")
    if not isinstance(contract, Mapping):
        return None
    tier = contract.get("risk_tier")
    return tier if tier in ("medium", "high") else "low"

"""The format of an entry of the plugin catalogue: one YAML file, `catalogue/NAME.yaml`.

docs/plugins.md describes it. An entry holds no document of a vendor, and no secret.
"""

import re
from datetime import date
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from app.core.schemas import (
    ShortText,
    StrictModel,
    Tag,
    Text,
    UrlText,
)
from app.protocols.requests.output_spec import OutputSpec
from app.toolsets.definition import MemberChange, ResultBudget

PLUGIN_NAME: Final = r"^[a-z0-9][a-z0-9-]{0,49}$"
PLACEHOLDER: Final = re.compile(r"\{\{ *([a-z][a-z0-9_.]*) *\}\}")
"""Stands in a manual for the value of a setting; alone in a text, it keeps the type of the value."""
_METHOD_AND_PATH: Final = re.compile(r"(GET|PUT|POST|DELETE|OPTIONS|HEAD|PATCH|TRACE|QUERY) (/\S*)")

PluginName = Annotated[str, Field(pattern=PLUGIN_NAME, examples=["github"])]
PluginToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,45}$", examples=["github_get_file"])]
SettingName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$", examples=["root"])]
SettingValue = (
    Annotated[str, Field(max_length=2_000)]
    | Annotated[int, Field(strict=True)]
    | Annotated[bool, Field(strict=True)]
)
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,79}$", examples=["GITHUB_TOKEN"])]


class PluginSetting(StrictModel):
    """A value that is no secret, which a plugin is enabled with.

    `server_variable` names the variable in the server URL of an OpenAPI document that it is the value of.
    """

    title: Annotated[str, Field(min_length=1, max_length=80)]
    description: Text = ""
    type: Literal["string", "integer", "boolean", "url", "folder"] = "string"
    required: bool = False
    default: SettingValue | None = None
    pattern: Annotated[str, Field(max_length=300)] | None = None
    minimum: int | None = None
    maximum: int | None = None
    examples: list[SettingValue] = Field(default_factory=list)
    server_variable: ShortText | None = None

    @model_validator(mode="after")
    def _default_is_not_required(self) -> Self:
        if self.required and self.default is not None:
            raise ValueError("must not be required and have a default")
        return self


class PluginCredential(StrictModel):
    """A credential that a plugin is enabled with.

    `kind` is that of the credential (docs/providers.md); one of kind `bearer` or `api_key` is given as a
    text, one of kind `basic` as `user:password`. One of kind `connection_string` is a URL, of which user
    name and password are secret, and the settings of the names in `parts` get the remaining parts. `scheme`
    is the Security Scheme Object of OpenAPI where the document of the vendor has none, or another one.
    `help` says in a sentence where the credential is created, at `url`. `missing` is what is said where it is
    not configured.
    """

    kind: Literal[
        "bearer", "api_key", "basic", "digest", "oauth2", "aws_sigv4", "hmac", "google_service_account",
        "connection_string",
    ]  # fmt: skip
    title: Annotated[str, Field(min_length=1, max_length=80)]
    help: Annotated[str, Field(min_length=1, max_length=500)]
    url: UrlText = ""
    environment: EnvironmentName = Field(
        description="Its usual environment variable; a variable of its "
        "provider has the same name, where the plugin has a manual."
    )
    required: bool = True
    missing: Annotated[str, Field(max_length=200)] = ""
    scheme: dict[str, Any] | None = None
    scopes: list[ShortText] = Field(
        default_factory=list, description="What it must be allowed to do, in the vendor's words."
    )

    @property
    def missing_message(self) -> str:
        """What is said where the credential is not configured."""
        return self.missing or f"{self.environment} not configured"


class PluginOperation(StrictModel):
    """An operation of a document that becomes a tool: `GET /repos/{owner}`, or an operationId.

    `description` is the tool's in place of the document's. `presets` are as in a toolset. `read_only` says
    whether the tool is, where its method does not: a search by POST. `output` shapes the result, and
    `outputs` is the JSON Schema of what comes of it.
    """

    operation: Annotated[str, Field(min_length=1, max_length=500)]
    name: PluginToolName
    description: Text | None = None
    presets: dict[str, Any] = Field(default_factory=dict)
    read_only: bool | None = None
    output: OutputSpec | None = None
    outputs: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _read_only_has_a_path(self) -> Self:
        if self.read_only is not None and self.method_and_path is None:
            raise ValueError("must be named by method and path where it has `read_only`")
        return self

    @property
    def method_and_path(self) -> tuple[str, str] | None:
        """The method in lower case and the path; None where it is named by its operationId."""
        found = _METHOD_AND_PATH.fullmatch(self.operation)
        return None if found is None else (found[1].lower(), found[2])


class PluginCorrection(StrictModel):
    """What an entry changes in the document of a vendor before it chooses its operations: an action of an
    OpenAPI Overlay, and the reason for it. `target` is a JSONPath (RFC 9535).
    """

    target: Annotated[str, Field(min_length=1, max_length=500)]
    update: Any = None
    remove: bool = False
    reason: Annotated[str, Field(min_length=1, max_length=500)]

    @model_validator(mode="after")
    def _does_one_thing(self) -> Self:
        if self.remove == (self.update is not None):
            raise ValueError("must have exactly one of `update` and `remove: true`")
        return self

    def action(self) -> dict[str, Any]:
        """Return the action of the overlay."""
        done = {"remove": True} if self.remove else {"update": self.update}
        return {"target": self.target, "description": self.reason, **done}


class PluginDocument(StrictModel):
    """The vendor's OpenAPI document: fetched from its URL when the plugin is enabled, or given then.

    `version` and `license` are the document's own, `checked_on` the day on which the entry was compared with
    it. `format`: `swagger` is 2.0; Google Discovery documents and Postman collections are `openapi`.
    `mirrors` are packages that have the same document, as `npm:stripe@19.0.0/openapi.json`: for people, and
    for the tests, which fetch it there. `corrections` are for what is wrong in it.
    """

    url: UrlText
    version: ShortText
    license: ShortText
    checked_on: date
    format: Literal["openapi", "swagger"] = "openapi"
    follow_references: bool = False
    server: ShortText | None = None
    mirrors: list[ShortText] = Field(default_factory=list)
    corrections: Annotated[list[PluginCorrection], Field(max_length=20)] = Field(default_factory=list)
    operations: Annotated[list[PluginOperation], Field(min_length=1, max_length=60)]

    @field_validator("url")
    @classmethod
    def _is_absolute(cls, value: str) -> str:
        if not value.startswith(("https://", "http://")):
            raise ValueError("must begin with https:// (or http://)")
        return value

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        for attribute in ("name", "operation"):
            found = [getattr(one, attribute) for one in self.operations]
            twice = sorted({one for one in found if found.count(one) > 1})
            if twice:
                raise ValueError(f"must not have two operations with the {attribute} {twice[0]}")
        return self


class PluginManualTool(StrictModel):
    """A tool with a call template of UTCP 1.x (docs/protocols.md). A credential is `${GITHUB_TOKEN}` in it,
    by its environment variable, a setting `{{root}}`.
    """

    name: PluginToolName
    description: Annotated[str, Field(min_length=1, max_length=20_000)]
    inputs: dict[str, Any]
    outputs: dict[str, Any] = Field(default_factory=dict)
    tags: list[Tag] = Field(default_factory=list)
    presets: dict[str, Any] = Field(default_factory=dict)
    tool_call_template: dict[str, Any]


class PluginManual(StrictModel):
    """Tools with call templates of our own. `reference` is the page of the vendor that they are made from."""

    reference: UrlText = ""
    checked_on: date | None = None
    tools: Annotated[list[PluginManualTool], Field(min_length=1, max_length=60)]

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        found = [one.name for one in self.tools]
        twice = sorted({one for one in found if found.count(one) > 1})
        if twice:
            raise ValueError(f"must not have two tools with the name {twice[0]}")
        return self


class PluginToolset(StrictModel):
    """The toolset of the plugin's name. Its members are the tools of the entry, under their own names.

    `changes` are by the name of the tool, for titles and descriptions that differ from the tool's.
    """

    description: Text = ""
    read_only: bool = False
    changes: dict[PluginToolName, MemberChange] = Field(default_factory=dict)
    result_budget: ResultBudget | None = None


class ExpectedRequest(StrictModel):
    """The request that a call sends, as a dry run describes it: secrets are `***`.

    Of `headers` those are compared that stand here, whatever the case of their names.
    """

    method: str
    url: Annotated[str, Field(max_length=8_000)]
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None


class PluginTestResponse(StrictModel):
    """What an upstream of the tests responds with. A text `body` is sent as it is, all else as JSON."""

    __test__ = False

    status: Annotated[int, Field(ge=200, le=599)] = 200
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None


class PluginTest(StrictModel):
    """A call, and what comes of it.

    `request` is the expected request; `source` says where it is from, e.g. the version of the vendor's SDK
    that sent it. `response` is what the upstream responds with, `result` what the client then gets, and
    `error` a part of the text of the error. `settings` are those that the plugin is enabled with.
    """

    __test__ = False

    tool: PluginToolName
    arguments: dict[str, Any] = Field(default_factory=dict)
    settings: dict[SettingName, SettingValue] = Field(default_factory=dict)
    source: ShortText = ""
    request: ExpectedRequest | None = None
    response: PluginTestResponse | None = None
    result: Any = None
    error: str | None = None


class PluginEntry(StrictModel):
    """An entry of the catalogue. `version` increases with each change that those who have enabled the plugin
    should get; `base_url` is the API's, which a setting of this name may replace.
    """

    name: PluginName
    version: Annotated[int, Field(ge=1)]
    title: Annotated[str, Field(min_length=1, max_length=80)]
    description: Annotated[str, Field(min_length=1, max_length=1_000)]
    homepage: UrlText = ""
    tags: list[Tag] = Field(min_length=1, max_length=20)
    base_url: UrlText | None = None
    document: PluginDocument | None = None
    manual: PluginManual | None = None
    settings: dict[SettingName, PluginSetting] = Field(default_factory=dict)
    credentials: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,50}$")], PluginCredential] = Field(
        default_factory=dict,
        description="By slot: of a document, the name of its security scheme.",
    )
    requires_setting: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")] | None = Field(
        default=None, description="The setting of the gateway with which its operator allows the plugin."
    )
    toolset: PluginToolset = Field(default_factory=PluginToolset)
    tests: list[PluginTest] = Field(default_factory=list)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of its tools, in the order of the entry."""
        if self.document is not None:
            return tuple(one.name for one in self.document.operations)
        return tuple(one.name for one in self.manual.tools) if self.manual is not None else ()

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.document is None) == (self.manual is None):
            raise ValueError("must have exactly one of `document` and `manual`")
        return self

    @model_validator(mode="after")
    def _names_what_exists(self) -> Self:
        names = set(self.tool_names)
        for unknown in sorted({*self.toolset.changes, *(one.tool for one in self.tests)} - names):
            raise ValueError(f"must not name the tool {unknown}, which it does not have")
        if self.manual is not None:
            parts = {
                f"{slot}.{part}"
                for slot, one in self.credentials.items()
                if one.kind == "connection_string"
                for part in CONNECTION_PARTS
            }
            known = {*self.settings, *parts, *(["base_url"] if self.base_url else [])}
            for tool in self.manual.tools:
                for unknown in sorted(placeholders(tool.tool_call_template) - known):
                    raise ValueError(f"must not name the setting {unknown}, which it does not have")
        return self


CONNECTION_PARTS: Final = ("host", "port", "database", "sslmode")
"""The parts of a connection string that are no secrets: `{{SLOT.host}}` in a manual."""


def placeholders(value: Any) -> set[str]:
    """Return the names of the settings in a manual's JSON."""
    if isinstance(value, str):
        return set(PLACEHOLDER.findall(value))
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(placeholders, inner)) if inner else set()

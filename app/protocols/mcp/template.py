"""Call templates of `mcp`: servers of the Model Context Protocol."""

from typing import Any, ClassVar, Literal, Self
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from app.utcp.call_template import CallTemplate


class McpServer(BaseModel):
    """One server, as MCP clients' configuration files write it. `transport`: absent, `stdio` where there is
    a `command`, else `http` (Streamable HTTP); `sse` is the transport of 2024-11-05. `query` are the
    parameters that the URL was written with. Times in seconds.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, hide_input_in_errors=True, coerce_numbers_to_str=True
    )

    transport: Literal["stdio", "http", "sse"] = "http"
    command: str | None = Field(default=None, min_length=1, max_length=4096)
    args: list[str] = Field(default_factory=list, max_length=1000)
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    cwd: str | None = Field(default=None, max_length=4096)
    url: str | None = Field(default=None, min_length=1, max_length=8192)
    query: dict[str, str] = Field(default_factory=dict, repr=False)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    timeout: float | None = Field(default=None, gt=0, le=86_400)
    sse_read_timeout: float | None = Field(default=None, gt=0, le=86_400)
    terminate_on_close: bool = True

    @model_validator(mode="before")
    @classmethod
    def _tolerant(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        given = {key: value for key, value in raw.items() if value is not None}
        kind = str(given.get("transport") or given.get("type") or "").lower().replace("-", "_")
        if kind in ("streamable_http", "streamablehttp", "http_stream"):
            kind = "http"
        given["transport"] = kind or ("stdio" if given.get("command") else "http")
        url = given.get("url")
        if isinstance(url, str) and "?" in url:
            given["url"], _, query = url.partition("#")[0].partition("?")
            given["query"] = dict(parse_qsl(query, keep_blank_values=True)) | given.get("query", {})
        return given

    @model_validator(mode="after")
    def _can_be_reached(self) -> Self:
        if self.transport == "stdio" and not self.command:
            raise ValueError("A server of transport stdio has a command")
        if self.transport != "stdio" and not self.url:
            raise ValueError("A server of transport http or sse has a url")
        return self


class McpConfig(BaseModel):
    """`mcpServers` by name."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True, populate_by_name=True)

    servers: dict[str, McpServer] = Field(alias="mcpServers", min_length=1, max_length=100)


class McpTemplate(CallTemplate):
    """UTCP's `mcp`. `tool_name` and `resource_uri` (our own) say what of its one server a tool is."""

    sealed: ClassVar[tuple[str, ...]] = (
        "/config/mcpServers/*/env/*", "/config/mcpServers/*/headers/*", "/config/mcpServers/*/query/*",
    )  # fmt: skip
    may_be_secret: ClassVar[tuple[str, ...]] = ("/config/mcpServers/*/args/*",)
    braced_only: ClassVar[tuple[str, ...]] = ("/tool_name", "/resource_uri")

    call_template_type: Literal["mcp"] = "mcp"
    config: McpConfig
    register_resources_as_tools: bool = False
    tool_name: str | None = None
    resource_uri: str | None = None

    @field_validator("register_resources_as_tools", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any) -> Any:
        return False if value is None else value

    @property
    def is_local(self) -> bool:
        """Whether one of its servers is a program on this machine."""
        return any(server.transport == "stdio" for server in self.config.servers.values())

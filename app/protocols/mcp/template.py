"""Call templates of `mcp`: servers of the Model Context Protocol."""

from typing import Any, ClassVar, Literal, Self
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from app.core.errors import FieldError, InvalidInput
from app.formats.utcp.call_template import CallTemplate
from app.formats.utcp.names import make_legal_name


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
    def _normalized(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        members = {key: value for key, value in raw.items() if value is not None}
        kind = str(members.get("transport") or members.get("type") or "").lower().replace("-", "_")
        if kind in ("streamable_http", "streamablehttp", "http_stream"):
            kind = "http"
        members["transport"] = kind or ("stdio" if members.get("command") else "http")
        url = members.get("url")
        if isinstance(url, str) and "?" in url:
            members["url"], _, query = url.partition("#")[0].partition("?")
            members["query"] = dict(parse_qsl(query, keep_blank_values=True)) | members.get("query", {})
        return members

    @model_validator(mode="after")
    def _require_command_or_url(self) -> Self:
        if self.transport == "stdio" and not self.command:
            raise ValueError("A server of transport stdio must have a command")
        if self.transport != "stdio" and not self.url:
            raise ValueError("A server of transport http or sse must have a url")
        return self


class McpConfig(BaseModel):
    """`mcpServers` by name."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True, populate_by_name=True)

    servers: dict[str, McpServer] = Field(alias="mcpServers", min_length=1, max_length=100)


class McpTemplate(CallTemplate):
    """UTCP's `mcp`. `tool_name` and `resource_uri` (our own) name the tool or resource of its one server."""

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

    def for_tool(self, name: str) -> Self:
        """Return the template with the one server of the tool, and its `tool_name` where it has none.

        UTCP's own client gives each tool the template of its whole manual, and takes server and tool from the
        name `server.tool`, or `manual.server.tool`; `server_tool` is the same name as this gateway writes it.
        Raise InvalidInput where the server of a tool cannot be determined.
        """
        server, tool = self._named(name)
        names_target = self.tool_name is not None or self.resource_uri is not None
        if server is None and len(self.config.servers) > 1:
            detail = "Name one server here, or call the tool `server.tool`."
            field_error = FieldError("/config/mcpServers", detail, sorted(self.config.servers)[:100])
            raise InvalidInput("The server of the tool cannot be determined.", errors=[field_error])
        if server is None:
            server = next(iter(self.config.servers))
        config = self.config.model_copy(update={"servers": {server: self.config.servers[server]}})
        return self.model_copy(update={"config": config} | ({} if names_target else {"tool_name": tool}))

    def _named(self, name: str) -> tuple[str | None, str]:
        """Return the server and the tool that a tool's name names; None where it names no server."""
        bare = name.removeprefix(f"{self.name}.") if self.name else name
        within_manual = bare.partition(".")[2]
        # The longest name first: one server's name may begin with that of another.
        servers = sorted(self.config.servers, key=len, reverse=True)
        spellings = [(bare, "."), (within_manual, ".")]
        if len(servers) > 1:
            spellings.append((bare, "_"))
        for text, separator in spellings:
            for server in servers:
                prefix = f"{make_legal_name(server) if separator == '_' else server}{separator}"
                if text.startswith(prefix) and len(text) > len(prefix):
                    return server, text.removeprefix(prefix)
        return None, bare

    @property
    def is_local(self) -> bool:
        """Whether one of its servers is a program on this machine."""
        return any(server.transport == "stdio" for server in self.config.servers.values())

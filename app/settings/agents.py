"""Settings of the interfaces for agents."""

from pydantic import Field
from pydantic_settings import BaseSettings


class AgentSettings(BaseSettings):
    """Settings of the interfaces for agents. Sizes are in bytes; numbers of streams are per worker."""

    # Agents
    mcp_page_size: int = Field(
        1_000,
        ge=1,
        le=10_000,
        description="Tools of a page of MCP's `tools/list`; many clients read the first page only.",
    )
    mcp_result_max: int = Field(
        100_000,
        ge=1_000,
        le=16 << 20,
        description="Largest text of a result over MCP; a toolset may have a limit of its own.",
    )
    mcp_structured_max: int = Field(
        64 << 10,
        ge=0,
        le=16 << 20,
        description="Largest JSON that a result over MCP also has as structured content.",
    )
    mcp_embed_binaries: bool = Field(
        default=False,
        description="Whether results over MCP include binaries other than images and sounds.",
    )
    mcp_max_streams: int = Field(
        2_000, ge=0, le=100_000, description="Open subscriptions to changes of MCP's `tools/list`."
    )
    mcp_max_streams_per_key: int = Field(1_000, ge=0, le=100_000, description="The same of one API key.")

"""Settings of the interfaces for agents."""

from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings


class AgentSettings(BaseSettings, defer_build=True):
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
    mcp_embedded_max: int = Field(
        1 << 20,
        ge=0,
        le=5 << 20,
        description="Largest file other than an image or a sound that a result over MCP includes, such as "
        "PDF, zip and Office files; 0: none.",
    )
    mcp_max_streams: int = Field(
        2_000, ge=0, le=100_000, description="Open subscriptions to changes of MCP's `tools/list`."
    )
    mcp_max_streams_per_key: int = Field(1_000, ge=0, le=100_000, description="The same of one API key.")

    # Agent tests
    anthropic_api_key: SecretStr | None = Field(
        None,
        description="Key of the API of Anthropic, for agent tests; it is sent to ANTHROPIC_BASE_URL only.",
    )
    anthropic_base_url: str | None = Field(
        None, description="Base URL of that API; unset: https://api.anthropic.com."
    )
    openai_api_key: SecretStr | None = Field(
        None, description="Key of the API of OpenAI, for agent tests; it is sent to OPENAI_BASE_URL only."
    )
    openai_base_url: str | None = Field(
        None, description="Base URL of that API; unset: https://api.openai.com/v1."
    )
    gemini_api_key: SecretStr | None = Field(
        None, description="Key of the API of Gemini, for agent tests; it is sent to GEMINI_BASE_URL only."
    )
    gemini_base_url: str | None = Field(
        None, description="Base URL of that API; unset: https://generativelanguage.googleapis.com."
    )
    agent_test_seconds: float = Field(
        600, ge=1, le=3600, description="Timeout of an agent test, with all of its cases."
    )
    agent_test_max_runs: int = Field(
        200,
        ge=1,
        le=10_000,
        description="Conversations of an agent test: cases by models by repetitions.",
    )
    agent_test_parallel: int = Field(
        4, ge=1, le=32, description="Conversations of an agent test that run at a time."
    )
    agent_test_max_running: int = Field(
        8, ge=1, le=100, description="Agent tests that a worker runs at a time; others are rejected with 503."
    )
    agent_test_retention_days: int = Field(
        7, ge=1, le=365, description="Days for which the results of agent tests are stored."
    )

    @field_validator("anthropic_base_url", "openai_base_url", "gemini_base_url")
    @classmethod
    def _is_base_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            host = ""
        if not host or parts.scheme not in ("https", "http"):
            msg = "must be a URL that begins with https:// or http://"
            raise ValueError(msg)
        if parts.username is not None or parts.query or parts.fragment:
            msg = "must have no user, query or fragment"
            raise ValueError(msg)
        return value.rstrip("/")

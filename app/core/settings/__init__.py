"""All settings of the gateway: environment variables or a `.env` file, read once, immutable.

Their names are the field names in upper case (`DATABASE_URL`). Except in embedded mode, the gateway does not
start without a sealing key of 32 random bytes; there are no default secrets.
"""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from app.core.rate_limit import RateLimit
from app.core.settings.agents import AgentSettings
from app.core.settings.api_description import ApiDescriptionSettings
from app.core.settings.console import ConsoleSettings
from app.core.settings.executors import ExecutorSettings
from app.core.settings.http_server import HttpServerSettings
from app.core.settings.oauth import OAuthSettings
from app.core.settings.operation import OperationSettings
from app.core.settings.outbound import OutboundSettings
from app.core.settings.programs import ProgramSettings
from app.core.settings.search_usage import SearchUsageSettings
from app.core.settings.semantic_search import SemanticSearchSettings
from app.core.settings.word_list import WordList


class Settings(
    HttpServerSettings,
    OutboundSettings,
    ProgramSettings,
    OperationSettings,
    AgentSettings,
    ExecutorSettings,
    OAuthSettings,
    SemanticSearchSettings,
    ApiDescriptionSettings,
    SearchUsageSettings,
    ConsoleSettings,
):
    """All settings. Times are in seconds, sizes in bytes. `.env.example` has these descriptions too."""

    model_config = SettingsConfigDict(
        env_file=".env", frozen=True, extra="ignore", hide_input_in_errors=True, env_ignore_empty=True
    )

    # Servers
    database_url: SecretStr | None = Field(
        None,
        description="PostgreSQL 15 or later; several hosts allowed. Unset: embedded servers are started.",
    )
    database_listen_url: SecretStr | None = Field(
        None, description="A direct DSN for LISTEN/NOTIFY, where DATABASE_URL goes through PgBouncer."
    )
    database_pool_size: int = Field(10, ge=1, le=200, description="Connections to PostgreSQL per worker.")
    redis_url: SecretStr | None = Field(None, description="Redis 7 or Valkey 8 and later.")
    redis_timeout: float = Field(0.1, gt=0, le=5, description="Timeout of a Redis command.")
    data_dir: Path = Field(Path(".data"), description="Folder of the embedded servers and their sealing key.")
    embedded: bool = Field(
        default=False, description="Set by `serve` when it has started the embedded servers."
    )

    # Web
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on.")
    workers: int = Field(1, ge=1, le=64, description="Worker processes.")
    public_base_url: str | None = Field(
        None, description="The gateway's public URL, e.g. https://tools.example.com; used in manuals."
    )
    root_path: str = Field("", description="Path prefix that a proxy strips before it passes requests on.")
    forwarded_allow_ips: str = Field(
        "127.0.0.1", description="Proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted."
    )
    allowed_hosts: WordList = Field(("*",), description="Accepted values of the Host header.")
    cors_origins: WordList = Field((), description="Origins of web pages that may call the gateway.")
    docs_public: bool = Field(default=True, description="Whether /docs and /openapi.json need no key.")
    max_request_bytes: int = Field(8 << 20, ge=1024, description="Largest request body, except documents.")
    max_document_bytes: int = Field(
        128 << 20, ge=1024, description="Largest OpenAPI document or manual, also once it is decompressed."
    )

    # Secrets
    sealing_keys: SecretStr | None = Field(
        None, description="Key ring `id:base64,...` of 32 random bytes each; the first encrypts, all decrypt."
    )
    sealing_keys_file: Path | None = Field(None, description="The same in a file, e.g. a mounted secret.")
    key_cache_seconds: float = Field(60, ge=0, le=900, description="How long a verified API key is cached.")
    auth_stale_seconds: float = Field(
        900, ge=0, le=86400, description="How long a cached key is accepted while PostgreSQL is unavailable."
    )
    key_failure_rate_limit: str | None = Field(
        "300/60:100",
        description="Invalid API keys and access tokens that one client address (IPv6: a /64) may send, per"
        " worker: REQUESTS/SECONDS or REQUESTS/SECONDS:BURST; `off`: no limit. Valid keys never count.",
    )

    key_expiry_warning_days: int = Field(
        14, ge=1, le=365, description="How many days before an API key expires its users are warned."
    )
    key_unused_warning_days: int = Field(
        30,
        ge=1,
        le=3650,
        description="After how many days without a request a key is reported as unused.",
    )

    # Registry
    providers_file: Path | None = Field(None, description="A providers.json to import at every start.")
    sample: bool = Field(default=True, description="Embedded mode: serve and register the sample API.")
    sample_port: int = Field(8001, ge=0, le=65535, description="Port of the sample API.")
    variable_env_names: WordList = Field(
        (), description="Environment variables that `${NAME}` in a provider may read."
    )
    conversion_timeout: float = Field(120, gt=0, description="Timeout of the conversion of a document.")
    conversion_memory_bytes: int = Field(4 << 30, ge=256 << 20, description="Memory limit of one conversion.")
    conversion_processes: int = Field(2, ge=1, le=16, description="Concurrent conversions per worker.")
    conversion_fork_server: bool = Field(
        default=True,
        description="Whether each worker keeps a process of 30 MB that is forked for each conversion; else "
        "each starts a new interpreter, which takes 0.3 s longer.",
    )

    # Discovery
    manual_version: Literal["1", "0"] = Field(
        "1", description="UTCP generation that /utcp serves by default."
    )
    utcp_anonymous: bool = Field(default=False, description="Whether /utcp may be read without a key.")

    @field_validator("public_base_url", "otel_exporter_otlp_endpoint", "otel_exporter_otlp_traces_endpoint")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            msg = "must begin with https:// or http://"
            raise ValueError(msg)
        return value.rstrip("/") if value else None

    @field_validator("key_rate_limit")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        if value is not None:
            RateLimit.parse(value)
        return value

    @field_validator("key_failure_rate_limit")
    @classmethod
    def _readable_or_off(cls, value: str | None) -> str | None:
        return None if value is None or value.strip().lower() == "off" else cls._readable(value)

    @model_validator(mode="after")
    def _one_key_source(self) -> Self:
        if self.sealing_keys is not None and self.sealing_keys_file is not None:
            msg = "set SEALING_KEYS or SEALING_KEYS_FILE, not both"
            raise ValueError(msg)
        return self

    def get_default_key_rate_limit(self) -> RateLimit | None:
        """Return the rate limit of API keys without one of their own; None for no limit."""
        return None if self.key_rate_limit is None else RateLimit.parse(self.key_rate_limit, is_own=False)

    def get_key_failure_limit(self) -> RateLimit | None:
        """Return the rate limit of invalid API keys from one client address; None for no limit."""
        return None if self.key_failure_rate_limit is None else RateLimit.parse(self.key_failure_rate_limit)

    @property
    def base_url(self) -> str:
        """The public URL without a trailing slash, including `root_path`."""
        if self.public_base_url:
            return self.public_base_url
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        return f"http://{host}:{self.port}{self.root_path.rstrip('/')}"

    @property
    def effective_grace_seconds(self) -> float:
        """Seconds for which the gateway still accepts requests after SIGTERM, while it reports not to be
        ready.

        By default 2, so that a load balancer notices; 0 in embedded mode, so that Ctrl-C is quick.
        """
        if self.shutdown_grace_seconds is not None:
            return self.shutdown_grace_seconds
        return 0.0 if self.embedded or self.database_url is None else 2.0

    def read_key_ring(self) -> str:
        """Return the text of the key ring; raise ValueError when none is set."""
        if self.sealing_keys is not None:
            return self.sealing_keys.get_secret_value()
        if self.sealing_keys_file is not None:
            try:
                return self.sealing_keys_file.read_text().strip()
            except (OSError, UnicodeDecodeError):
                # The original error would quote a byte of a file that is not text.
                msg = f"SEALING_KEYS_FILE cannot be read: {self.sealing_keys_file}."
                raise ValueError(msg) from None
        msg = "Set SEALING_KEYS or SEALING_KEYS_FILE: `utcp-gateway bootstrap --new-sealing-key` prints one."
        raise ValueError(msg)

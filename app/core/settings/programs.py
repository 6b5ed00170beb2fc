"""Settings of programs that the gateway starts: for protocol cli, and MCP servers with transport stdio."""

from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from app.core.settings.word_list import WordList


class ProgramSettings(BaseSettings, defer_build=True):
    """Which programs may run, their environment and their limits. Times are in seconds, sizes in bytes."""

    # Programs and MCP servers
    programs: WordList = Field(
        (),
        description="Absolute paths of the programs that providers of protocol cli, and MCP servers of"
        " transport stdio, may run; unset: none.",
    )
    program_folders: WordList = Field(
        (), description="Folders in which, and below which, these programs may run (working_dir, cwd)."
    )
    program_env_names: WordList = Field(
        (),
        description="Environment variables of the gateway that these programs may inherit. Variables that"
        " determine which code or configuration programs use, where they connect or whom they trust"
        " (PATH, HOME, GIT_*, npm_config_*, *_PROXY) may be set for them only if they are listed here.",
    )
    program_user: str | None = Field(
        None,
        description="Name or number of the user as which these programs run where the gateway runs as root."
        " Unset: root, whose processes the kernel does not limit.",
    )
    program_concurrency: int = Field(
        16, ge=1, le=1000, description="Concurrent programs of protocol cli, per worker."
    )
    program_cpu_seconds: int = Field(
        60, ge=1, le=86400, description="CPU time of such a program; MCP servers have no such limit."
    )
    program_memory_bytes: int = Field(
        4 << 30, ge=16 << 20, description="Address space of a program; Node.js needs 1 GiB to start."
    )
    program_file_bytes: int = Field(64 << 20, ge=0, description="Largest file that a program may write.")
    program_processes: int = Field(
        64, ge=1, le=10_000, description="Processes and threads that a program may start."
    )
    program_open_files: int = Field(256, ge=16, le=65_536, description="Files that a program may have open.")
    mcp_sessions: int = Field(
        64, ge=1, le=10_000, description="Sessions with MCP servers that are held open, per worker."
    )
    mcp_idle_seconds: float = Field(
        300, gt=0, le=86400, description="How long an unused session is held open."
    )

    @field_validator("programs", "program_folders")
    @classmethod
    def _whole_paths(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(Path(path).is_absolute() for path in value):
            msg = "must be absolute paths"
            raise ValueError(msg)
        return value

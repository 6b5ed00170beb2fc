"""Settings of programs that the gateway starts: of protocol cli, and MCP servers of transport stdio."""

from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from app.settings.words import Words


class ProgramSettings(BaseSettings):
    """Which programs may run, with what, and how much each may take. Times are in seconds, sizes in bytes."""

    # Programs and MCP servers
    programs: Words = Field(
        (),
        description="Absolute paths of the programs that providers of protocol cli, and MCP servers of"
        " transport stdio, may run; unset: none.",
    )
    program_folders: Words = Field(
        (), description="Folders that these programs may work in (working_dir, cwd), with all below them."
    )
    program_env_names: Words = Field(
        (),
        description="Environment variables of the gateway that these programs may inherit. One by"
        " which programs choose code, configuration, where they connect or whom they trust (PATH, HOME,"
        " GIT_*, npm_config_*, *_PROXY) may be given to them only if it stands here.",
    )
    program_user: str | None = Field(
        None,
        description="Name or number of the user that these programs run under where the gateway is root."
        " Unset: root, for whom the kernel does not count processes.",
    )
    program_concurrency: int = Field(
        16, ge=1, le=1000, description="Programs of protocol cli that run at once, per worker."
    )
    program_cpu_seconds: int = Field(
        60, ge=1, le=86400, description="CPU time of one such program; MCP servers have no such limit."
    )
    program_memory_bytes: int = Field(
        4 << 30, ge=16 << 20, description="Address space of one program; Node.js takes 1 GiB to start."
    )
    program_file_bytes: int = Field(64 << 20, ge=0, description="Largest file that one program may write.")
    program_processes: int = Field(
        64, ge=1, le=10_000, description="Processes and threads that one program may start."
    )
    program_open_files: int = Field(256, ge=16, le=65_536, description="Files that one program may open.")
    mcp_sessions: int = Field(
        64, ge=1, le=10_000, description="Sessions with MCP servers that are kept open, per worker."
    )
    mcp_idle_seconds: float = Field(
        300, gt=0, le=86400, description="How long a session that nobody uses is kept open."
    )

    @field_validator("programs", "program_folders")
    @classmethod
    def _whole_paths(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(Path(path).is_absolute() for path in value):
            msg = "must be absolute paths"
            raise ValueError(msg)
        return value

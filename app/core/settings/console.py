"""Settings of the web console and its sessions."""

from pydantic import Field
from pydantic_settings import BaseSettings


class ConsoleSettings(BaseSettings, defer_build=True):
    """Settings of the web console. Times are in seconds."""

    # Console
    console: bool = Field(default=True, description="Whether the web console is served below /console.")
    session_idle_seconds: int = Field(
        43_200,
        ge=300,
        le=2_592_000,
        description="After how long without a request a session of the console ends.",
    )
    session_max_seconds: int = Field(
        604_800,
        ge=300,
        le=2_592_000,
        description="How long a session of the console lasts at most, however much it is used.",
    )

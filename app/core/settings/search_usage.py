"""Settings of what the ranking of tools learns from use."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings

UsageMode = Literal["off", "key", "tenant"]


class SearchUsageSettings(BaseSettings, defer_build=True):
    """Settings of what is learned from searches and the calls that follow them."""

    # Search: learned from use
    search_usage: UsageMode = Field(
        "key",
        description="Whether the ranking learns from the calls that follow searches: off; for each key from"
        " its own calls (key); or also from those of others (tenant), once three keys agree.",
    )
    search_usage_seconds: float = Field(
        10, gt=0, le=600, description="Interval at which searches are matched with calls."
    )
    search_usage_half_life_days: float = Field(
        30, gt=0, le=3650, description="After how many days a call that followed a search counts half."
    )
    search_usage_retention_days: int = Field(
        90,
        ge=1,
        le=3650,
        description="How long what was learned is retained after it was last confirmed; also the texts of"
        " searches.",
    )
    search_usage_max: int = Field(
        100_000,
        ge=100,
        le=5_000_000,
        description="Counts (of one word, tool and key) that are stored, and are in the memory of each"
        " worker; of one key at most a twentieth of them.",
    )
    search_usage_queries: bool = Field(
        default=False,
        description="Whether the texts of searches are stored, with known secrets masked, for operators to"
        " read. Otherwise only keyed digests of their words are.",
    )

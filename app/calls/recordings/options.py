"""How a recording is replayed."""

from typing import Annotated, Final, Literal

from pydantic import Field

from app.core.schemas import StrictModel

MAX_IGNORED: Final = 50
Pointer = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^/[^\u0000]*$")]


class RecordingOptions(StrictModel):
    """How a recording is replayed."""

    ignored: list[Pointer] = Field(
        default_factory=list,
        max_length=MAX_IGNORED,
        description="JSON pointers to arguments that do not count when a call is compared with the recorded "
        "ones, e.g. times and random ids; `*` stands for each item or member.",
        examples=[["/requested_at", "/items/*/id"]],
    )
    after_last: Literal["repeat-last", "error"] = Field(
        "repeat-last",
        description="What a run gets for a request whose recorded responses it has all had: the last one "
        "again, or the error `not-recorded`.",
    )
    strict: Annotated[bool, Field(strict=True)] = Field(
        False,
        description="Whether a call of a tool that has changed since is the error `recording-outdated`; else "
        "its response has the header `X-Recording-Warning`.",
    )

"""What a re-import changes, and what of it waits for approval."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

Verdict = Literal["breaking", "compatible"]


class AspectChange(BaseModel):
    """One difference between two versions of an operation."""

    aspect: Literal["input", "output", "auth", "server", "placing", "description"]
    effect: Literal["widened", "narrowed", "changed"]
    breaking: bool
    pointer: str = Field(description="Where in the input or output; `*` is any item.")
    detail: str


class OperationChange(BaseModel):
    """What a re-import does with one operation."""

    source_key: str
    change: Literal["added", "removed", "changed"]
    verdict: Verdict = Field(description="Whether callers of the old version can go on.")
    held: bool = Field(description="Whether it waits for approval: origin, token URL or security differ.")
    differences: list[AspectChange]


class Difference(BaseModel):
    """Source keys by what an import did with their tools, and a verdict on each that is not the same."""

    added: list[str]
    changed: list[str]
    unchanged: list[str]
    removed: list[str]
    held: list[str] = Field(description="Those that wait for approval.")
    verdict: Verdict
    operations: list[OperationChange]


class Pending(BaseModel):
    """Changes that a refresh held back."""

    since: datetime
    operations: list[OperationChange]

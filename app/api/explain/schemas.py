"""The response of `GET /explain`."""

from typing import Self

from pydantic import BaseModel, Field

from app.calls.explanation import Check, CheckName
from app.core.schemas import UpstreamModeInput
from app.toolsets.explanation import AccessExplanation


class CheckView(BaseModel):
    """One rule that a call has to pass."""

    check: CheckName
    exact_check: str = Field(
        description="The check itself: `check` has values of release 0.2.0 only, in place of "
        "`executor-connected` (whether an executor is connected that executes the tool) `destination`.",
        examples=["destination"],
    )
    passed: bool | None = Field(
        description="null where it was not determined, because another check failed or the requesting key "
        "may not know it."
    )
    required: bool = Field(description="Whether a call fails where this check does not pass.")
    detail: str
    hint: str = Field(description="What to do where it does not pass; else empty.")

    @classmethod
    def of(cls, check: Check) -> Self:
        """Return the view of a check."""
        return cls(
            check=check.check,
            exact_check=check.own_name or check.check,
            passed=check.passed,
            required=check.required,
            detail=check.detail,
            hint=check.hint,
        )


class ExplanationView(BaseModel):
    """Whether a key may see and call a tool now, and why."""

    key_id: str
    key_name: str
    tool: str | None = Field(
        description="Its canonical name; null where the requesting key may see no tools."
    )
    provider: str | None
    may_see: bool | None = Field(
        description="Whether lists, search and manuals can show the tool to the key: `tools:read` and the "
        "restrictions; null where it was not determined."
    )
    may_call: bool | None = Field(
        description="Whether every required check passes: a call with valid arguments would be sent now. "
        "null where none fails, but some were not determined."
    )
    upstream: UpstreamModeInput | None = Field(
        None,
        description="The upstream mode of the call, that of the key or the toolset; null for live calls.",
    )
    checks: list[CheckView] = Field(
        description="In the order of a call: it fails at the first required check that does not pass."
    )

    @classmethod
    def of(cls, explanation: AccessExplanation) -> Self:
        """Return the view of an explanation."""
        mode = explanation.mode
        return cls(
            key_id=explanation.key_id,
            key_name=explanation.key_name,
            tool=explanation.tool,
            provider=explanation.provider,
            may_see=explanation.may_see,
            may_call=explanation.may_call,
            upstream=None if mode is None else UpstreamModeInput.model_validate(mode.to_stored()),
            checks=[CheckView.of(check) for check in explanation.checks],
        )

"""Types and models that the HTTP resources share: problems (RFC 9457), storable text, names, rate limits."""

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, Strict

from app.security.rate_limit import MAX_PERIOD_SECONDS, MAX_REQUESTS, RateLimit

PROVIDER_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$"
TOOL_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"


def _storable(value: str) -> str:
    """Return the text; raise ValueError for NUL and lone surrogates, which PostgreSQL does not store."""
    if "\x00" in value:
        msg = "must not contain NUL"
        raise ValueError(msg)
    if any("\ud800" <= char <= "\udfff" for char in value):
        msg = "must not contain lone surrogates"
        raise ValueError(msg)
    return value


def _integral(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


ACCEPT_INTEGRAL_FLOAT = BeforeValidator(_integral)
"""Put it after the Field of a strict int, which then also takes 60.0: an integer by JSON Schema
(validation, section 6.1.1)."""
Number = Annotated[float, Strict()]
"""A JSON number, never text or a boolean."""
_NO_NUL = r"^[^\x00]*$"
Text = Annotated[str, Field(max_length=20_000, pattern=_NO_NUL), AfterValidator(_storable)]
"""Text that can be stored; at most 20,000 characters."""
ShortText = Annotated[str, Field(max_length=200, pattern=_NO_NUL), AfterValidator(_storable)]
UrlText = Annotated[str, Field(max_length=2048, pattern=r"^[^\x00-\x20\x7f]*$"), AfterValidator(_storable)]
Tag = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
ProviderName = Annotated[str, Field(pattern=PROVIDER_NAME, examples=["library"])]
ToolName = Annotated[str, Field(pattern=TOOL_NAME, examples=["library.searchBooks"])]


class StrictModel(BaseModel):
    """A request body that rejects unknown members."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class RateLimitInput(StrictModel):
    """How often tools may be called; further calls are rejected with 429."""

    requests: Annotated[int, Field(ge=1, le=MAX_REQUESTS, strict=True), ACCEPT_INTEGRAL_FLOAT] = Field(
        description="Calls in `per_seconds`, spread evenly."
    )
    per_seconds: Annotated[int, Field(ge=1, le=MAX_PERIOD_SECONDS, strict=True), ACCEPT_INTEGRAL_FLOAT]
    burst: Annotated[int, Field(ge=1, le=MAX_REQUESTS, strict=True), ACCEPT_INTEGRAL_FLOAT] | None = Field(
        None, description="Calls that may be made at once. Default: `requests`."
    )

    def to_rate_limit(self) -> RateLimit:
        """Return the rate limit to be enforced; without a burst, all `requests` may be made at once."""
        return RateLimit(self.requests, self.per_seconds, self.burst or self.requests)


class FieldErrorView(BaseModel):
    """One error in the input."""

    pointer: str = Field(description="RFC 6901 JSON pointer into the body, or #/query/..., #/path/...")
    detail: str
    expected: Any = None


class Problem(BaseModel):
    """RFC 9457 problem details; `type` ends in a stable slug."""

    model_config = ConfigDict(extra="allow")
    type: str = Field(examples=["urn:utcp-gateway:problem:not-found"])
    title: str
    status: int
    detail: str
    errors: list[FieldErrorView] | None = None
    call_id: str | None = None
    upstream_status: int | None = None


_DESCRIPTIONS = {
    400: "The request could not be read",
    401: "No valid API key",
    403: "The API key does not allow this",
    404: "Not found, or not visible to this key",
    409: "In conflict with the stored state",
    412: "Changed since it was read",
    413: "Too large",
    415: "Media type not supported",
    422: "The input is not valid",
    424: "A required credential is not stored",
    429: "Too many calls; try again later",
    502: "The upstream failed",
    503: "Temporarily unavailable; Retry-After says when to try again",
    504: "The upstream did not respond in time",
    508: "The call has passed through this gateway before",
}


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route: 401, 403, 422, 503 and the given statuses, each with a problem."""
    return {
        status: {
            "description": _DESCRIPTIONS[status],
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in sorted({401, 403, 422, 503, *statuses})
    }


_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _require_rfc3339(value: object) -> object:
    """Return the value; raise ValueError for anything else than RFC 3339 (pydantic also takes seconds)."""
    if isinstance(value, datetime) or (isinstance(value, str) and _RFC3339.fullmatch(value)):
        return value
    msg = "must be a time with an offset as in RFC 3339, e.g. 2030-01-31T00:00:00Z"
    raise ValueError(msg)


Rfc3339DateTime = Annotated[
    AwareDatetime, BeforeValidator(_require_rfc3339, json_schema_input_type=AwareDatetime)
]

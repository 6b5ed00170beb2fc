"""Schemas that every edge shares: problems (RFC 9457), safe text, names, pages."""

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, Strict

from app.security.rate_limit import LONGEST_SECONDS, MOST, RateLimit

PROVIDER_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$"
TOOL_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"


def _storable(value: str) -> str:
    """PostgreSQL stores neither NUL nor lone surrogates."""
    if "\x00" in value:
        msg = "must not contain NUL"
        raise ValueError(msg)
    if any("\ud800" <= char <= "\udfff" for char in value):
        msg = "must not contain lone surrogates"
        raise ValueError(msg)
    return value


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""After the Field of a strict int: an integer as JSON Schema means it. 60.0 is one (validation, 6.1.1)."""
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


class Closed(BaseModel):
    """A request body that refuses what it does not know."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class RateInput(Closed):
    """How often tools may be called; calls beyond it are answered with 429."""

    requests: Annotated[int, Field(ge=1, le=MOST, strict=True), WHOLE] = Field(
        description="Calls in `per_seconds`, spread evenly."
    )
    per_seconds: Annotated[int, Field(ge=1, le=LONGEST_SECONDS, strict=True), WHOLE]
    burst: Annotated[int, Field(ge=1, le=MOST, strict=True), WHOLE] | None = Field(
        None, description="Calls that may come at once; without it, all of `requests`."
    )

    def limit(self) -> RateLimit:
        """The value that is enforced."""
        return RateLimit(self.requests, self.per_seconds, self.burst or self.requests)


class FaultBody(BaseModel):
    """One thing that is wrong."""

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
    errors: list[FaultBody] | None = None
    call_id: str | None = None
    upstream_status: int | None = None


_TITLES = {
    400: "The request could not be read",
    401: "No valid API key",
    403: "The API key does not allow this",
    404: "Not found, or not visible to this key",
    409: "In conflict with what is stored",
    412: "Changed since it was read",
    413: "Too large",
    415: "Media type not supported",
    422: "Something in the input is wrong",
    424: "A needed credential is not stored",
    429: "Too many calls; try again later",
    502: "The upstream failed",
    503: "Not available for now; Retry-After says when to try again",
    504: "The upstream did not answer in time",
    508: "The call has been at this gateway before",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route: 401, 403, 422 and 503 always, and the named ones."""
    return {
        status: {
            "description": _TITLES[status],
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in sorted({401, 403, 422, 503, *statuses})
    }


_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _spelled_out(value: object) -> object:
    """pydantic would also take a number of seconds."""
    if isinstance(value, datetime) or (isinstance(value, str) and _RFC3339.fullmatch(value)):
        return value
    msg = "must be a time with an offset as in RFC 3339, e.g. 2030-01-31T00:00:00Z"
    raise ValueError(msg)


Moment = Annotated[AwareDatetime, BeforeValidator(_spelled_out, json_schema_input_type=AwareDatetime)]

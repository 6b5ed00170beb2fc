"""Types and models that the HTTP resources share: problems (RFC 9457), storable text, names, rate limits."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, Self, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    field_validator,
    model_validator,
)

from app.core.language_tags import LANGUAGE_TAG, MAX_LENGTH, normalize_tag
from app.core.pagination import Page
from app.core.rate_limit import MAX_PERIOD_SECONDS, MAX_REQUESTS, RateLimit
from app.core.resource_names import PROVIDER_NAME, TOOL_NAME, TOOLSET_NAME
from app.core.text import split_input_path
from app.core.tool_keywords import MAX_KEYWORD_LENGTH, MAX_KEYWORDS, drop_repeated
from app.core.upstream_mode import MAX_SEED, RECORDING_NAME, ModeName, UpstreamMode

PATTERN_MESSAGES = {
    PROVIDER_NAME: "The name of a provider has at most 50 letters, digits, `-` and `_`, and begins with a "
    "letter or digit.",
    LANGUAGE_TAG: "A language tag is that of BCP 47, such as `de` or `pt-BR`.",
    TOOL_NAME: "The name of a tool has at most 200 letters, digits, `-`, `_` and `.`, and begins with a "
    "letter or digit.",
}
"""What to say about a text that does not match one of these patterns."""


def _check_storable(value: str) -> str:
    """Return the text; raise ValueError for NUL and lone surrogates, which PostgreSQL does not store."""
    if "\x00" in value:
        msg = "must not contain NUL"
        raise ValueError(msg)
    if any("\ud800" <= char <= "\udfff" for char in value):
        msg = "must not contain lone surrogates"
        raise ValueError(msg)
    return value


def _accept_integral(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


ACCEPT_INTEGRAL_FLOAT = BeforeValidator(_accept_integral)
"""Put it after the Field of a strict int, which then also takes 60.0: an integer by JSON Schema
(validation, section 6.1.1)."""
Number = Annotated[float, Strict()]
"""A JSON number, never text or a boolean."""
_NO_NUL = r"^[^\x00]*$"
Text = Annotated[str, Field(max_length=20_000, pattern=_NO_NUL), AfterValidator(_check_storable)]
"""Text that can be stored; at most 20,000 characters."""
ShortText = Annotated[str, Field(max_length=200, pattern=_NO_NUL), AfterValidator(_check_storable)]
UrlText = Annotated[
    str, Field(max_length=2048, pattern=r"^[^\x00-\x20\x7f]*$"), AfterValidator(_check_storable)
]
ToolsetName = Annotated[str, Field(pattern=TOOLSET_NAME, examples=["support"])]
Tag = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Keyword = Annotated[
    str,
    Field(
        max_length=MAX_KEYWORD_LENGTH,
        pattern=r"^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$",
        examples=["voucher"],
    ),
    AfterValidator(_check_storable),
]
"""A further word, or a few words, by which search finds a tool."""
Keywords = Annotated[
    list[Keyword],
    Field(max_length=MAX_KEYWORDS),
    AfterValidator(lambda given: list(drop_repeated(given))),
]
"""Keywords that differ in more than case: of others the first one stays."""
LanguageTag = Annotated[
    str,
    Field(max_length=MAX_LENGTH, pattern=LANGUAGE_TAG, examples=["de"]),
    AfterValidator(lambda value: normalize_tag(value) or value),
]
"""A language tag (BCP 47), which becomes the case of RFC 5646 section 2.1.1."""
ProviderName = Annotated[str, Field(pattern=PROVIDER_NAME, examples=["library"])]
ToolName = Annotated[str, Field(pattern=TOOL_NAME, examples=["library.searchBooks"])]


RecordingName = Annotated[str, Field(pattern=RECORDING_NAME, examples=["checkout"])]


class StrictModel(BaseModel):
    """A request body that rejects unknown members."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


InputName = Annotated[
    str, Field(min_length=1, max_length=500, pattern=_NO_NUL), AfterValidator(_check_storable)
]


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


class UpstreamModeInput(StrictModel):
    """Whether calls reach their upstreams."""

    mode: ModeName = Field(
        description="`live`: they do. `record`: they do, and what the upstreams respond is stored in the "
        "recording. `replay`: the recording responds, and nothing is sent. `mock`: responses are made from "
        "examples and schemas of the tools, and nothing is sent."
    )
    recording: RecordingName | None = Field(
        None, description="The name of the recording, for `record` and `replay`."
    )
    seed: Annotated[int, Field(ge=0, le=MAX_SEED, strict=True), ACCEPT_INTEGRAL_FLOAT] = Field(
        0, description="Chooses the responses of `mock`: the same ones for the same seed and arguments."
    )

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        uses_recording = self.mode in ("record", "replay")
        if uses_recording and self.recording is None:
            raise ValueError(f"must name a recording for the mode {self.mode}")
        if not uses_recording and self.recording is not None:
            raise ValueError(f"must not name a recording for the mode {self.mode}")
        if self.seed and self.mode != "mock":
            raise ValueError(f"must not have a seed for the mode {self.mode}")
        return self

    def to_mode(self) -> UpstreamMode:
        """Return the mode to be used."""
        return UpstreamMode(self.mode, self.recording, self.seed)


HeaderToken = Annotated[str, Field(max_length=100, pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
"""The name of a header, or a part of one (RFC 9110, section 5.6.2, "token")."""


class AnnotationsInput(StrictModel):
    """What agents are told about a tool. A hint about its effects that is null or omitted is what the method
    of HTTP tells.
    """

    read_only: Annotated[bool, Field(strict=True)] | None = Field(
        None, description="It changes nothing, e.g. a search by POST."
    )
    destructive: Annotated[bool, Field(strict=True)] | None = Field(
        None, description="It may delete or overwrite."
    )
    idempotent: Annotated[bool, Field(strict=True)] | None = Field(
        None, description="Repeating a call changes nothing more."
    )
    open_world: Annotated[bool, Field(strict=True)] | None = Field(
        None, description="It deals with more than a fixed set of things."
    )
    header_inputs: dict[InputName, HeaderToken] | None = Field(
        None,
        max_length=20,
        description="Inputs that clients of MCP 2026-07-28 repeat in a header, which proxies can route by: "
        "`Mcp-Param-<token>` by the name of an input, or by JSON pointer (`/body/account`). Of type string, "
        "integer or boolean; tokens differ in more than case.",
        examples=[{"tenant": "Tenant"}],
    )

    @field_validator("header_inputs")
    @classmethod
    def _check_header_inputs(cls, given: dict[str, str] | None) -> dict[str, str] | None:
        tokens: dict[str, str] = {}
        paths: dict[tuple[str, ...], str] = {}
        for name, token in (given or {}).items():
            if tokens.setdefault(token.lower(), name) != name:
                raise ValueError(f"must not have one token for {tokens[token.lower()]} and {name}")
            if paths.setdefault(split_input_path(name), name) != name:
                raise ValueError(f"must name the input {name} once")
        return given


JsonPointer = Annotated[str, Field(max_length=500, pattern=r"^(/[^\u0000]*)?$")]


class AllPagesInput(StrictModel):
    """How the pages of a list follow each other."""

    by: Literal["link", "next", "cursor", "page", "offset"] = Field(
        description="`link`: the header Link with rel=next; `next`: a URL at `pointer` of the response; "
        "`cursor`: a value at `pointer`, which `argument` has in the next call; `page`, `offset`: numbers "
        "that `argument` has."
    )
    items: JsonPointer = Field("", description="JSON pointer to the list; empty where it is the response.")
    pointer: JsonPointer = Field("", description="JSON pointer to the URL or cursor of the next page.")
    argument: Annotated[str, Field(max_length=200, pattern=_NO_NUL)] = Field(
        "", description="The input of the tool."
    )
    max_pages: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(20, description="At most so many.")

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        if self.by in ("next", "cursor") and not self.pointer:
            raise ValueError(f"`by: {self.by}` needs `pointer`.")
        if self.by in ("cursor", "page", "offset") and not self.argument:
            raise ValueError(f"`by: {self.by}` needs `argument`.")
        return self


class ResponseOptionsInput(StrictModel):
    """What the gateway does with the responses of a tool before a client gets them."""

    all_pages: AllPagesInput | None = Field(
        None, description="Read all pages of a list, and return them as one. Only for tools that are safe."
    )
    poll: Annotated[bool, Field(strict=True)] = Field(
        False, description="Follow a response with 202 and `Location` until the operation is done."
    )


ItemT = TypeVar("ItemT")


class PageModel(BaseModel, Generic[ItemT]):
    """A page of a list. Its header `Link` has the URLs of the next page and of the first one (RFC 8288)."""

    items: list[ItemT]
    next_cursor: str | None = Field(description="The `cursor` of the next page; null on the last page.")
    total: int | None = Field(
        description="The number of items on all pages together; null where there are more than 10,000, or "
        "where they were not counted.",
        ge=0,
    )
    total_at_least: int | None = Field(
        description="10,000 where there are more items than that, else null.", ge=0
    )

    @classmethod
    def of(cls, page: Page[Any], items: list[ItemT], **members: Any) -> Self:
        """Return the response with the items that were made of the rows of a page; `members` are those of a
        subclass.
        """
        return cls(
            items=items,
            next_cursor=page.next_cursor,
            total=page.total,
            total_at_least=page.total_at_least,
            **members,
        )


class StreamedPage(PageModel[ItemT], Generic[ItemT]):
    """A page of a list whose new items are also streamed."""

    position: UUID = Field(
        description="The time of this list, as the `Last-Event-ID` of the stream of its items: the stream "
        "then begins with what is not in the list yet. Some items of the list may come again."
    )


class AspectChange(BaseModel):
    """One difference between two versions of an operation."""

    aspect: Literal["input", "output", "auth", "server", "placing", "description"]
    effect: Literal["widened", "narrowed", "changed"]
    breaking: bool
    pointer: str = Field(description="Where in the input or output; `*` is any item.")
    detail: str


class FieldErrorView(BaseModel):
    """One error in the input."""

    pointer: str = Field(description="RFC 6901 JSON pointer into the body, or #/query/..., #/path/...")
    detail: str
    expected: Any = None
    received: str | None = Field(None, description="The type of what was given there.")
    nearest: str | None = Field(None, description="The valid value or name that was probably meant.")
    example: Any = Field(None, description="A valid value.")


class Problem(BaseModel):
    """RFC 9457 problem details; `type` is the same in every deployment, and ends in a stable slug."""

    model_config = ConfigDict(extra="allow")
    type: str = Field(examples=["urn:utcp-gateway:problem:not-found"])
    title: str
    status: int
    detail: str = Field(description="What happened in this case.")
    hint: str = Field(
        description="One sentence on what to do next.",
        examples=["Check the spelling; lists such as GET /tools have all names that the API key may see."],
    )
    retryable: bool = Field(
        description="Whether the same request may succeed when it is repeated, without doing anything twice; "
        "wait for the seconds in Retry-After first, where there is one."
    )
    documentation_url: str | None = Field(
        None,
        description="The page that explains the problem type, or the scope that the key lacks: an absolute "
        "URL, or a path of the gateway. Absent where the request was rejected before it was read.",
        examples=["https://tools.example.com/problems/not-found"],
    )
    suggestions: list[str] | None = Field(
        None, description="Similar names that the API key may see, the most similar first."
    )
    missing_scopes: list[str] | None = Field(
        None, description="The scopes that the API key lacks; GET /scopes describes each."
    )
    errors: list[FieldErrorView] | None = None
    call_id: str | None = None
    upstream_status: int | None = None


_DESCRIPTIONS = {
    400: "The request could not be read",
    401: "No valid API key",
    403: "The API key does not allow this",
    404: "Not found, or not visible to this key",
    408: "The client stopped sending or reading",
    409: "In conflict with the stored state",
    412: "Changed since it was read",
    413: "Too large",
    414: "The URL is too long",
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


PAGE_HEADERS: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "Link": {
                "schema": {"type": "string"},
                "description": "URLs of the first page, and of the next one where there is one (RFC 8288).",
            }
        }
    }
}
"""The header of a list's response, for the `responses=` of its route."""


def location_header(description: str) -> dict[str, Any]:
    """Return the header `Location` of a response, for the `headers` of one of the `responses=` of a route."""
    return {
        "Location": {
            "required": True,
            "schema": {"type": "string", "format": "uri-reference"},
            "description": description,
        }
    }


_FIRST_MOMENT = datetime(1, 1, 2, tzinfo=UTC)
_LAST_MOMENT = datetime(9999, 12, 31, tzinfo=UTC)
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


def in_utc(moment: datetime | None) -> datetime | None:
    """Return a moment in UTC, at most a day from the first or last one, beyond which it could not be."""
    return None if moment is None else max(_FIRST_MOMENT, min(moment, _LAST_MOMENT)).astimezone(UTC)


class TokenHolder(BaseModel):
    """For whom an access token was issued."""

    issuer: str = Field(description="Claim `iss`.", examples=["https://login.example"])
    subject: str = Field(description="Claim `sub`.", examples=["user-7"])
    client: str | None = Field(description="Claim `client_id` or `azp`; null without it.")

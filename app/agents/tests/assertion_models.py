"""The assertions about a run of an agent test, as a test file has them."""

from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self

import orjson
from pydantic import Field, field_validator, model_validator

from app.core import exact_json
from app.core.errors import InvalidInput
from app.core.schemas import (
    ACCEPT_INTEGRAL_FLOAT,
    JsonPointer,
    Number,
    ShortText,
    StrictModel,
)
from app.formats.json_schema.validator import OutputValidator

MAX_SCHEMA_BYTES: Final = 100_000
_MAX_COMPILED: Final = 100
_PROGRAM_BYTES: Final = 1 << 20
_Text = Annotated[str, Field(min_length=1, max_length=20_000)]
_ToolName = Annotated[str, Field(min_length=1, max_length=200)]
_Count = Annotated[int, Field(ge=0, le=1_000, strict=True), ACCEPT_INTEGRAL_FLOAT]
_Total = Annotated[int, Field(ge=1, le=1_000_000_000, strict=True), ACCEPT_INTEGRAL_FLOAT]
_Flag = Annotated[bool, Field(strict=True)]


class _AssertionModel(StrictModel):
    weight: Annotated[Number, Field(gt=0, le=1_000)] = Field(
        1.0, description="How much it counts in the score."
    )
    description: ShortText = Field("", description="Shown in the results.")


class ContainsAssertion(_AssertionModel):
    """The response contains a text."""

    type: Literal["contains"]
    value: _Text
    ignore_case: _Flag = False


class NotContainsAssertion(_AssertionModel):
    """The response does not contain a text."""

    type: Literal["not_contains"]
    value: _Text
    ignore_case: _Flag = False


class EqualsAssertion(_AssertionModel):
    """The response is a text, white space at both ends aside."""

    type: Literal["equals"]
    value: Annotated[str, Field(max_length=20_000)]
    ignore_case: _Flag = False


class RegexAssertion(_AssertionModel):
    """A regular expression (RE2, which has no look-around and no back-references) matches in the response."""

    type: Literal["regex"]
    pattern: Annotated[str, Field(min_length=1, max_length=2_000)]
    ignore_case: _Flag = False

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        if compiled_pattern(pattern, ignore_case=False) is None:
            raise ValueError("must be a regular expression of RE2: without look-around and back-references")
        return pattern


class JsonPointerAssertion(_AssertionModel):
    """The response is JSON, alone or in a fenced block, that has a value at a JSON pointer (RFC 6901)."""

    type: Literal["json_pointer"]
    pointer: JsonPointer
    equals: Any = Field(description="The value. `1` and `1.0` are equal.")


class JsonSchemaAssertion(_AssertionModel):
    """The response is JSON, alone or in a fenced block, that is valid for a JSON Schema (2020-12)."""

    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema", description="A JSON Schema; no `$ref` is fetched.")

    @field_validator("schema_")
    @classmethod
    def _usable(cls, schema: dict[str, Any]) -> dict[str, Any]:
        try:
            if len(exact_json.dump_strictly(schema)) > MAX_SCHEMA_BYTES:
                raise ValueError(f"must have at most {MAX_SCHEMA_BYTES} bytes of JSON")
            OutputValidator(schema)
        except (InvalidInput, orjson.JSONEncodeError):
            raise ValueError("must be a JSON Schema that refers to nothing outside of it") from None
        return schema


class ToolCalledAssertion(_AssertionModel):
    """A tool was called, with arguments where these are given."""

    type: Literal["tool_called"]
    tool: _ToolName = Field(description="The tool's name in its toolset, or its canonical name.")
    arguments: dict[str, Any] | None = None
    match: Literal["subset", "equals"] = Field(
        "subset", description="Whether the call may have further arguments."
    )
    is_error: _Flag | None = Field(
        None, description="Only calls that failed, or only those that did not. Default: any call."
    )


class ToolNotCalledAssertion(_AssertionModel):
    """A tool was not called."""

    type: Literal["tool_not_called"]
    tool: _ToolName


class CallCountAssertion(_AssertionModel):
    """The number of calls, of all tools or of one."""

    type: Literal["call_count"]
    tool: _ToolName | None = None
    min: _Count | None = None
    max: _Count | None = None
    exact: _Count | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.exact is not None and (self.min is not None or self.max is not None):
            raise ValueError("Give `exact`, or `min` and `max`.")
        if self.exact is None and self.min is None and self.max is None:
            raise ValueError("Give `exact`, `min` or `max`.")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("`min` must not be larger than `max`.")
        return self


class CallOrderAssertion(_AssertionModel):
    """Tools were called in this order; other calls may be between them."""

    type: Literal["call_order"]
    tools: Annotated[list[_ToolName], Field(min_length=1, max_length=100)]


class StoppedAssertion(_AssertionModel):
    """How the run ended: by the model itself, or at the most iterations."""

    type: Literal["stopped"]
    value: Literal["done", "iterations"]


class MaxTokensAssertion(_AssertionModel):
    """The run took at most so many tokens, input and output together."""

    type: Literal["max_tokens"]
    value: _Total


class MaxDurationAssertion(_AssertionModel):
    """The run took at most so many milliseconds."""

    type: Literal["max_duration"]
    value: _Total


Assertion = Annotated[
    ContainsAssertion
    | NotContainsAssertion
    | EqualsAssertion
    | RegexAssertion
    | JsonPointerAssertion
    | JsonSchemaAssertion
    | ToolCalledAssertion
    | ToolNotCalledAssertion
    | CallCountAssertion
    | CallOrderAssertion
    | StoppedAssertion
    | MaxTokensAssertion
    | MaxDurationAssertion,
    Field(discriminator="type"),
]


@lru_cache(maxsize=_MAX_COMPILED)
def compiled_pattern(pattern: str, *, ignore_case: bool) -> Any:
    """Return a compiled pattern, whose search takes linear time; None where RE2 cannot compile it."""
    # The import takes 40 ms, and few tests have a pattern.
    import re2  # noqa: PLC0415

    options = re2.Options()
    options.max_mem = _PROGRAM_BYTES
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError):
        return None

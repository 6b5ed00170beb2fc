"""How a tool shapes the response of its upstream: the member `output` of `response` in a call template.

A shape is data: each value of the result is found in the response or in the arguments of the call by a JSON
pointer (RFC 6901), and may be decoded. `app.protocols.responses.shaping` follows it.
"""

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

POINTER: Final = re.compile(r"(?:/(?:[^~/\x00]|~[01])*)*")
_MAX_MEMBERS: Final = 200
_MAX_DEPTH: Final = 8
Pointer = Annotated[str, Field(max_length=500, pattern=rf"^{POINTER.pattern}$")]


class _OutputPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True)


class OutputNode(_OutputPart):
    """One value of a result. A text in its place is a `from`.

    `from` is a pointer into the response; inside of `each`, into the item. `argument` is one into the
    arguments of the call. `members` make an object, of which those without a value are left out. `each` is
    the shape of every item of the list that `from` finds. `decode` takes a text in base64 as UTF-8; line
    breaks in it are ignored, and bytes that are not UTF-8 become U+FFFD. `default` stands where nothing is
    found, or null.
    """

    source: Pointer | None = Field(default=None, alias="from")
    argument: Pointer | None = None
    members: dict[str, "OutputNode"] | None = Field(default=None, max_length=_MAX_MEMBERS)
    each: "OutputNode | None" = None
    decode: Literal["base64"] | None = None
    default: Any = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, given: Any) -> Any:
        return {"from": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _has_one_meaning(self) -> Self:
        if self.source is not None and self.argument is not None:
            raise ValueError("must have one of `from` and `argument`")
        if self.members is not None and (self.each or self.argument or self.decode):
            raise ValueError("must not have `each`, `argument` or `decode` beside `members`")
        if self.members is None and self.source is None and self.argument is None:
            raise ValueError("must have `from`, `argument` or `members`")
        if self.each is not None and (self.decode or self.argument is not None):
            raise ValueError("must not have `decode` or `argument` beside `each`")
        if _depth(self) > _MAX_DEPTH:
            raise ValueError(f"must be nested at most {_MAX_DEPTH} deep")
        return self

    @property
    def decodes(self) -> bool:
        """Whether a text is decoded anywhere in it."""
        return self.decode is not None or any(one.decodes for one in _inner(self))


class OutputRequirement(_OutputPart):
    """What a response must have at a pointer; without it the call fails with `message`.

    With `type` the value must be of this type, with `const` equal to it. `argument` is a pointer to the
    argument that is wrong then; without one, the upstream's response is.
    """

    pointer: Pointer
    type: Literal["string", "number", "boolean", "object", "array", "null"] | None = None
    const: str | float | int | bool | None = None
    message: str = Field(min_length=1, max_length=300)
    argument: Pointer | None = None


class OutputSpec(OutputNode):
    """The shape of a whole result. `require` is checked first, in order.

    `error` is what the error of a response that is not a success says; `{reason}` in it is the phrase of its
    status (RFC 9110 section 15), `{status}` the number.
    """

    require: tuple[OutputRequirement, ...] = Field(default=(), max_length=20)
    error: str | None = Field(default=None, min_length=1, max_length=300)

    @field_validator("error")
    @classmethod
    def _has_known_placeholders(cls, value: str | None) -> str | None:
        if value is not None and set(re.findall(r"\{([^{}]*)\}", value)) - {"reason", "status"}:
            raise ValueError("may have the placeholders {reason} and {status}")
        return value


def _depth(node: OutputNode) -> int:
    return 1 + max(map(_depth, _inner(node)), default=0)


def _inner(node: OutputNode) -> list[OutputNode]:
    return [*(node.members or {}).values(), *([node.each] if node.each is not None else [])]

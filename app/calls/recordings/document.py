"""The document of a recording: `GET /recordings/{name}/export` returns it, `PUT /recordings/{name}` takes it.

It has everything that a replay needs, and nothing of one gateway: no id, no key, no secret. The responses in
the database have the same form.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

import orjson
from pydantic import AfterValidator, ConfigDict, Field, model_validator

from app.calls.recordings.interactions import RecordedError, RecordedResponse
from app.calls.recordings.options import RecordingOptions
from app.calls.response.checks import VIOLATIONS_HEADER
from app.calls.response.following import PAGES_HEADER
from app.core import exact_json
from app.core.errors import UpstreamError
from app.core.schemas import Rfc3339DateTime, StrictModel, Text, ToolName
from app.core.text import remove_unstorable
from app.formats.utcp.headers import HEADER_NAME
from app.outbound.framing import StreamEvent
from app.protocols.base import MASKED_HEADER
from app.protocols.shared.response_headers import select_passed_headers

FORMAT: Final = "utcp-gateway-recording/1"
MAX_DOCUMENT_INTERACTIONS: Final = 100_000
_MAX_HEADER: Final = 16_384
_MAX_HEADERS: Final = 100
_MAX_MEDIA_TYPE: Final = 300
_MAX_DETAIL: Final = 20_000
_NUL: Final = "\x00"
_FRAMING: Final = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding", "upgrade"})
# What the gateway says of a response before it is recorded.
_GATEWAY_HEADERS: Final = frozenset(one.lower() for one in (MASKED_HEADER, PAGES_HEADER, VIOLATIONS_HEADER))
_SENDABLE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def _check_header(pair: list[str]) -> list[str]:
    name, value = pair
    if HEADER_NAME.fullmatch(name) is None or name.lower() in _FRAMING or _SENDABLE.fullmatch(value) is None:
        raise ValueError("must be the name of a header that is not about framing, and its value")
    return pair


def _check_media_type(value: str) -> str:
    if _SENDABLE.fullmatch(value) is None:
        raise ValueError("must be the value of a header")
    return value


HeaderPair = Annotated[
    list[Annotated[str, Field(max_length=16_384)]],
    Field(min_length=2, max_length=2),
    AfterValidator(_check_header),
]


class EventDocument(StrictModel):
    """One event of a stream: `data` as text, or in `base64` where it is not UTF-8."""

    kind: Literal["message", "json", "text", "bytes"] = "message"
    data: str | None = None
    base64: str | None = None
    name: Annotated[str, Field(pattern=r"^[^\r\n\x00]*$")] = ""
    id: Annotated[str, Field(pattern=r"^[^\r\n\x00]*$")] | None = None
    retry: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _has_data(self) -> Self:
        if (self.data is None) == (self.base64 is None):
            raise ValueError("must have either data or base64")
        _check_base64(self.base64)
        return self


class ErrorDocument(StrictModel):
    """How the upstream failed: `slug` is that of the problem, `upstream_status` that of its response."""

    slug: Annotated[str, Field(pattern=r"^(upstream-[a-z]+|response-too-large)$")]
    detail: Text
    request_sent: bool = True
    upstream_status: Annotated[int, Field(ge=100, le=599)] | None = None
    upstream_body: Any = None
    headers: list[HeaderPair] = Field(default_factory=list, max_length=100)

    @model_validator(mode="after")
    def _has_status(self) -> Self:
        if self.slug == "upstream-rejected" and self.upstream_status is None:
            raise ValueError("must have an upstream_status")
        return self


class ResponseDocument(StrictModel):
    """What the upstream gave: its body as `json`, `text` or `base64`, its `events`, or an `error`."""

    model_config = ConfigDict(serialize_by_alias=True, extra="forbid", hide_input_in_errors=True)
    status: Annotated[int, Field(ge=0, le=599)] = Field(0, description="0 where there was no response.")
    media_type: Annotated[
        str, Field(max_length=300, pattern=r"^[^\r\n\x00]*$"), AfterValidator(_check_media_type)
    ] = ""
    headers: list[HeaderPair] = Field(default_factory=list, max_length=100)
    value: Any = Field(None, alias="json", description="The body, where it is compact JSON.")
    text: str | None = None
    base64: str | None = None
    events: list[EventDocument] | None = Field(None, max_length=100_000)
    error: ErrorDocument | None = None
    is_cut: bool = Field(False, description="Whether only the first events were recorded.")
    text_pieces: bool = Field(False, description="Whether events of text are pieces of one text.")
    content_blocks: bool = Field(False, description="Whether the body is a list of content blocks of MCP.")

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        given = [
            "value" in self.model_fields_set,
            self.text is not None,
            self.base64 is not None,
            self.events is not None,
        ]
        if sum(given) + (self.error is not None and self.events is None) != 1:
            raise ValueError("must have one of json, text, base64, events and error")
        if self.error is None and not 100 <= self.status <= 599:
            raise ValueError("must have the status of the response")
        _check_base64(self.base64)
        return self


class InteractionDocument(StrictModel):
    """One call: its arguments, with secrets as `***`, and what its upstream gave."""

    @model_validator(mode="before")
    @classmethod
    def _is_plain_json(cls, value: Any) -> Any:
        try:
            exact_json.dump_strictly(value)
        except TypeError:
            raise ValueError(
                "must have no lone surrogates, no integers beyond 64 bits, and few levels"
            ) from None
        return value

    tool: ToolName
    arguments: dict[str, Any] | None = Field(
        None, description="Secrets, and what a toolset sets, are `***`.", examples=[{"q": "sea"}]
    )
    arguments_text: str | None = Field(
        None, description="The arguments as JSON text, where a number has more digits than a double."
    )
    definition: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(
        description="SHA-256 of method, inputs and outputs of the tool when it was recorded."
    )
    recorded_at: Rfc3339DateTime
    response: ResponseDocument

    @model_validator(mode="after")
    def _has_arguments(self) -> Self:
        if (self.arguments is None) == (self.arguments_text is None):
            raise ValueError("must have either arguments or arguments_text")
        self.read_arguments()
        return self

    def read_arguments(self) -> dict[str, Any]:
        """Return the arguments; raise ValueError where their text is no JSON object."""
        if self.arguments_text is None:
            return self.arguments or {}
        try:
            arguments = exact_json.load_exactly(self.arguments_text.encode())
        except (ValueError, RecursionError):
            raise ValueError("must be the text of a JSON object") from None
        if not isinstance(arguments, dict):
            raise ValueError("must be the text of a JSON object")  # noqa: TRY004 - pydantic reports it.
        return arguments


class RecordingDocument(StrictModel):
    """A recording as a file."""

    format: Literal["utcp-gateway-recording/1"] = FORMAT
    description: Text = ""
    options: RecordingOptions = Field(default_factory=RecordingOptions)
    interactions: list[InteractionDocument] = Field(
        default_factory=list,
        max_length=MAX_DOCUMENT_INTERACTIONS,
        description="In the order in which they were recorded.",
    )


def build_arguments_members(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a document that hold arguments."""
    text = exact_json.dumps(arguments)
    return {"arguments": arguments} if _is_plain(text) else {"arguments_text": text.decode()}


def build_response_members(response: RecordedResponse) -> dict[str, Any]:
    """Return a response in the form of a document; members without a value are left out."""
    members: dict[str, Any] = {"status": response.status}
    if response.media_type and _SENDABLE.fullmatch(response.media_type):
        members["media_type"] = response.media_type[:_MAX_MEDIA_TYPE]
    if response.headers:
        members["headers"] = _build_header_members(response.headers)
    if response.events is not None:
        members["events"] = [_build_event_members(event) for event in response.events]
    elif response.error is None:
        members |= _build_body_members(response.body or b"")
    if response.error is not None:
        members["error"] = _build_error_members(response.error)
    for name in ("is_cut", "text_pieces", "content_blocks"):
        if getattr(response, name):
            members[name] = True
    return members


def response_of(members: Mapping[str, Any]) -> RecordedResponse:
    """Return the response of a valid `response` of a document, with the headers that a live one would pass
    on: a document may be from anywhere.
    """
    events = members.get("events")
    error = members.get("error")
    media_type = members.get("media_type", "")
    return RecordedResponse(
        status=members.get("status", 0),
        # What was stored before this was checked.
        media_type=media_type if _SENDABLE.fullmatch(media_type) else "",
        headers=_read_headers(members),
        body=None if events is not None or error is not None else _read_body(members),
        events=None if events is None else tuple(_read_event(one) for one in events),
        error=None if error is None else _read_error(error),
        is_cut=members.get("is_cut", False),
        text_pieces=members.get("text_pieces", False),
        content_blocks=members.get("content_blocks", False),
    )


def _build_header_members(headers: tuple[tuple[str, str], ...]) -> list[list[str]]:
    """Return headers as a document may have them: the first ones, without those that are too long."""
    fitting = [list(pair) for pair in headers if max(map(len, pair)) <= _MAX_HEADER]
    return fitting[:_MAX_HEADERS]


def _read_headers(members: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    given = ((name, value) for name, value in members.get("headers") or ())
    return tuple(select_passed_headers(given, besides=_GATEWAY_HEADERS))


def _build_body_members(body: bytes) -> dict[str, Any]:
    if _is_plain(body):
        try:
            value = orjson.loads(body)
            if exact_json.dumps(value) == body:
                return {"json": value}
        except (orjson.JSONDecodeError, orjson.JSONEncodeError):
            pass
    text = _decode_utf8(body)
    return {"base64": base64.b64encode(body).decode()} if text is None else {"text": text}


def _read_body(members: Mapping[str, Any]) -> bytes:
    if members.get("text") is not None:
        return str(members["text"]).encode()
    if members.get("base64") is not None:
        return base64.b64decode(members["base64"])
    return exact_json.dumps(members.get("json"))


def _is_plain(text: bytes) -> bool:
    """Return whether each parser of JSON reads the numbers of a text alike."""
    return not exact_json.may_be_inexact(text) and not exact_json.has_long_integer(text)


def _decode_utf8(body: bytes) -> str | None:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if _NUL in text else text


def _build_event_members(event: StreamEvent) -> dict[str, Any]:
    text = _decode_utf8(event.data)
    members: dict[str, Any] = {"kind": event.kind}
    members |= {"base64": base64.b64encode(event.data).decode()} if text is None else {"data": text}
    if event.name:
        members["name"] = event.name
    if event.id is not None:
        members["id"] = event.id
    if event.retry is not None:
        members["retry"] = event.retry
    return members


def _read_event(members: Mapping[str, Any]) -> StreamEvent:
    coded = members.get("base64")
    data = str(members["data"]).encode() if coded is None else base64.b64decode(coded)
    return StreamEvent(
        data,
        members.get("kind", "message"),
        members.get("name") or "",
        members.get("id"),
        members.get("retry"),
    )


def _build_error_members(error: RecordedError) -> dict[str, Any]:
    detail = remove_unstorable(error.detail)[:_MAX_DETAIL]
    members: dict[str, Any] = {"slug": error.slug, "detail": detail}
    if not error.request_sent:
        members["request_sent"] = False
    if error.status is not None:
        members["upstream_status"] = error.status
    if error.body is not None:
        members["upstream_body"] = _make_storable(error.body)
    if error.headers:
        members["headers"] = _build_header_members(error.headers)
    return members


def _make_storable(value: Any) -> Any:
    """Return the body of an error as JSON can have it: with numbers as a double has them."""
    try:
        return orjson.loads(exact_json.dumps(exact_json.without_decimals(value)))
    except (TypeError, ValueError):
        return str(value)


def _read_error(members: Mapping[str, Any]) -> RecordedError:
    return RecordedError(
        members.get("slug", UpstreamError.slug),
        members.get("detail", ""),
        members.get("request_sent", True),
        members.get("upstream_status"),
        members.get("upstream_body"),
        _read_headers(members),
    )


def _check_base64(coded: str | None) -> None:
    if coded is None:
        return
    try:
        base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64") from None


def build_interaction_members(
    *, tool: str, arguments: Mapping[str, Any], definition: str, recorded_at: datetime, response: Any
) -> dict[str, Any]:
    """Return an interaction in the form of a document."""
    return {
        "tool": tool,
        **build_arguments_members(arguments),
        "definition": definition,
        "recorded_at": recorded_at.isoformat(),
        "response": response,
    }

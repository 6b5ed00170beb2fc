"""What a function has returned, as text and as JSON; and errors, as values."""

import base64
import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pydantic_core

ErrorKind = Literal["invalid_arguments", "tool_error", "failed"]
"""Arguments that do not fit the schema; a ToolError; any other exception, and a result without JSON."""


class ToolError(Exception):
    """Raised by a function to fail with a message that the caller of the tool may read.

    Of other exceptions callers only learn the type: their texts may hold what is not meant for them.
    """


@dataclass(frozen=True, slots=True)
class ArgumentError:
    """Why an argument is rejected: `pointer` is a JSON pointer (RFC 6901) into the arguments."""

    pointer: str
    message: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of a call. `text` is for a model, `json` the same as JSON text, `content` that of bytes.

    An error has an `error` and, where arguments were rejected, the `errors` of each; its text is JSON.
    """

    text: str
    json: str
    content: bytes | None = None
    error: ErrorKind | None = None
    message: str = ""
    errors: tuple[ArgumentError, ...] = ()

    @property
    def is_error(self) -> bool:
        return self.error is not None


def result_of(value: Any) -> ToolResult:
    """Return the result of a function that has returned `value`.

    The text of a string is the string, of bytes their base64 (RFC 4648), of others their JSON as pydantic
    writes it: models, dataclasses, enums, dates, None as `null`. A value that has no JSON is an error.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        # UTF-8 has no unpaired surrogates.
        text = value.encode(errors="replace").decode()
        return ToolResult(text, json.dumps(text, ensure_ascii=False))
    if isinstance(value, bytes | bytearray | memoryview):
        content = bytes(value)
        text = base64.b64encode(content).decode()
        return ToolResult(text, f'"{text}"', content)
    try:
        text = pydantic_core.to_json(value, bytes_mode="base64", inf_nan_mode="strings").decode()
    except (ValueError, RecursionError):
        return error_result("failed", f"The result has no JSON: it is or holds a {type(value).__name__}.")
    return ToolResult(text, text)


def error_result(kind: ErrorKind, message: str, errors: tuple[ArgumentError, ...] = ()) -> ToolResult:
    """Return an error as a result whose text is `{"error": message, "errors": [{pointer, message}]}`."""
    body: dict[str, Any] = {"error": message}
    if errors:
        body["errors"] = [{"pointer": each.pointer, "message": each.message} for each in errors]
    text = json.dumps(body, ensure_ascii=False)
    return ToolResult(text, text, error=kind, message=message, errors=errors)

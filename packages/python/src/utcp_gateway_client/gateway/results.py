"""What a call returned."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from utcp_gateway_client.gateway.models import ApprovalResult


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call.

    `value` is JSON as Python has it, text as str, None where there is no content, and bytes for anything
    else.
    `continuation` is the handle by which the rest of a result that was cut is read. `repairs` and `notes` are
    what the gateway says about repaired arguments and cuts. `replayed` says that an earlier call with this
    Idempotency-Key had this result.
    """

    value: Any
    media_type: str
    status: int
    call_id: str | None = None
    continuation: str | None = None
    repairs: str | None = None
    notes: str | None = None
    replayed: bool = False


class Continued(Protocol):
    """A result that may have been cut: a CallResult, a ToolCallResult or a ContinuationPart."""

    @property
    def continuation(self) -> str | None:
        """The handle by which the rest is read; None where there is no rest."""


def continuation_of(result: Continued | str | None) -> str | None:
    """Return the handle of a result, or the handle that is given."""
    return result if result is None or isinstance(result, str) else result.continuation


def call_result(status: int, headers: Mapping[str, str], body: bytes) -> CallResult:
    """Return the result of a response of the call route; raise ValueError for JSON that cannot be read."""
    content_type = headers.get("content-type", "")
    return CallResult(
        value=_value(content_type, body),
        media_type=content_type.partition(";")[0].strip(),
        status=status,
        call_id=headers.get("x-call-id"),
        continuation=headers.get("x-continuation"),
        repairs=headers.get("x-argument-repairs"),
        notes=headers.get("x-result-notes"),
        replayed=headers.get("idempotency-replayed") == "true",
    )


def approved_result(result: ApprovalResult) -> CallResult:
    """Return the result of an approved call, which has no problem."""
    value: Any = result.json_
    if result.text is not None:
        value = result.text
    elif result.base64 is not None:
        value = base64.b64decode(result.base64)
    call_id = str(result.call_id) if result.call_id is not None else None
    return CallResult(value, result.media_type, result.upstream_status or 200, call_id)


def _value(content_type: str, body: bytes) -> Any:
    media_type, _, parameters = content_type.lower().partition(";")
    media_type = media_type.strip()
    if not body:
        return None
    if media_type == "application/json" or media_type.endswith("+json"):
        return json.loads(body)
    if media_type.startswith("text/"):
        _, _, charset = parameters.partition("charset=")
        try:
            return body.decode(charset.strip(' "') or "utf-8")
        except (LookupError, UnicodeDecodeError):
            return body
    return body

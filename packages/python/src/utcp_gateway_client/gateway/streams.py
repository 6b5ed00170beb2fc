"""The events of a streamed call, and of streamed tool calls: what is in them, and how they end."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from utcp_gateway_client.gateway.errors import ProblemError, StreamBroken, problem_error
from utcp_gateway_client.gateway.event_reader import EventReader, RawEvent
from utcp_gateway_client.gateway.models import ToolCallResult, ToolCallsResponse

E = TypeVar("E")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event of the upstream: `data` is JSON as Python has it, else str or bytes.

    `event` and `id` are those of an upstream that sends events itself, and empty otherwise.
    """

    data: Any
    event: str = ""
    id: str = ""


class Decoder(Generic[E]):
    """Turns the parts of a response into events of a stream.

    `end` is the last event: None until it has arrived.
    """

    def __init__(self, decode: Callable[[RawEvent], tuple[E | None, Any]]) -> None:
        self._reader = EventReader()
        self._decode = decode
        self._error: ProblemError | None = None
        self.end: Any = None

    def feed(self, part: bytes) -> list[E]:
        """Return the events that `part` completes. An event that is an error is raised by `finish`."""
        events = []
        try:
            raw_events = self._reader.feed(part)
        except ValueError as error:
            raise StreamBroken(str(error)) from None
        for raw in raw_events:
            try:
                event, end = self._decode(raw)
            except ProblemError as error:
                self._error = error
                break
            if event is not None:
                events.append(event)
            self.end = end if end is not None else self.end
        return events

    def finish(self) -> None:
        """Raise the error that ended the stream, or StreamBroken where the last event has not arrived."""
        if self._error is not None:
            raise self._error
        if self.end is None:
            raise StreamBroken("The stream ended before its last event.")


def decode_call(raw: RawEvent) -> tuple[StreamEvent | None, Any]:
    """Return an event of a call, or what the last one says."""
    if raw.event == "gateway-end":
        return None, _json(raw.data)
    if raw.event == "gateway-error":
        _raise(raw.data)
    if raw.event == "gateway-bytes":
        return StreamEvent(base64.b64decode(_json(raw.data)["base64"])), None
    if raw.event == "gateway-text":
        return StreamEvent(_json(raw.data)), None
    name = raw.event.removeprefix("upstream-") if raw.event.startswith("upstream-gateway-") else raw.event
    return StreamEvent(_json_or_text(raw.data), name, raw.id), None


def decode_tool_calls(raw: RawEvent) -> tuple[ToolCallResult | None, Any]:
    """Return the result of a call (its `message` is a further member), or the whole response."""
    if raw.event == "end":
        return None, _model(ToolCallsResponse, raw.data)
    if raw.event == "error":
        _raise(raw.data)
    return _model(ToolCallResult, raw.data), None


def _raise(data: str) -> NoReturn:
    problem = _json(data)
    status = problem.get("status")
    raise problem_error(status if isinstance(status, int) else 500, problem)


def _model(model: type[M], data: str) -> M:
    try:
        return model.model_validate(_json(data))
    except ValidationError:
        raise StreamBroken(f"An event of the gateway is no {model.__name__}.") from None


def _json(data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise StreamBroken("An event of the gateway is not JSON.") from None


def _json_or_text(data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data

"""The adapter of UBP: a call becomes a command for the executor that has registered it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar, Final, TypeGuard

import orjson

from app.core.errors import InvalidInput, UpstreamErrorResponse, UpstreamMalformed, UpstreamRejected
from app.core.exact_json import dumps
from app.core.uuid7 import uuid7
from app.formats.ubp.json_form import convert_command
from app.formats.ubp.model import (
    MEDIA_TYPE,
    TRACE_CONTEXT,
    Command,
    CommandResult,
    Event,
    Status,
)
from app.formats.ubp.statuses import choose_http_status
from app.formats.ubp.values import build_struct_payload, read_bytes, read_value
from app.formats.utcp.call_template import compile_template
from app.protocols.base import AdapterContext, Call, Discovered, Result
from app.protocols.command_routing import Capability
from app.protocols.shared.effects import UnknownEffects
from app.protocols.shared.results import BYTES, JSON, body_result
from app.protocols.ubp.template import UbpTemplate

PROGRESS: Final = "command.progress"
"""The event that tells how far a command is: a number, or an object with progress, total and message."""
_MAX_ERROR: Final = 2_000


@dataclass(frozen=True, slots=True)
class UbpTarget:
    """A compiled template."""

    executor: str
    command_name: str


class UbpAdapter(UnknownEffects):
    """The adapter for tools of connected executors."""

    name: ClassVar[str] = "ubp"
    keeps_digits: ClassVar[bool] = True

    def __init__(self, context: AdapterContext) -> None:
        self._router = context.commands

    def prepare(self, template: Mapping[str, Any]) -> UbpTarget:
        """Compile a template of `call_template_type` ubp; raise InvalidInput."""
        fields = compile_template(template, UbpTemplate)
        return UbpTarget(fields.executor, fields.command_name)

    def origin(self, target: UbpTarget) -> str:
        """Return `ubp://<executor>`."""
        return f"ubp://{target.executor}"

    def method(self, target: UbpTarget) -> str:
        """Return the name of the command."""
        return target.command_name

    async def discover(self, call: Call[UbpTarget]) -> Discovered:  # noqa: ARG002 - the contract's.
        """Raise UpstreamMalformed: executors register their tools when they connect."""
        raise UpstreamMalformed("An executor registers its tools when it connects.")

    async def call(self, call: Call[UbpTarget]) -> Result:
        """Send the command, and return the result of the executor.

        The trace of the call is in the metadata of the envelope: a command of an agent is sent as it came.
        Raise UpstreamUnreachable where no executor is connected or it disconnects, UpstreamTimeout at the
        deadline, and UpstreamRejected for a response that is not SUCCESS.
        """
        target = call.target
        capability = Capability(call.tenant_id, call.provider or target.executor, target.command_name)
        result = await self._router.execute(
            capability,
            _command(call),
            deadline=call.deadline,
            on_progress=partial(_report, call),
            metadata={name: value for name, value in call.headers if name in TRACE_CONTEXT},
        )
        if result.status is not Status.SUCCESS:
            raise _rejected(result)
        content = read_bytes(result.result)
        if content is not None:
            found = body_result(content, result.metadata.get(MEDIA_TYPE, BYTES), call)
        else:
            found = body_result(_json(result), JSON, call)
        found.command_result = result
        return found

    def describe(self, call: Call[UbpTarget]) -> dict[str, Any]:
        """Return the command as JSON."""
        return {
            "method": "command",
            "url": self.origin(call.target),
            "headers": {},
            "body": convert_command(_command(call)),
        }

    async def aclose(self) -> None:
        """Do nothing: the router belongs to others."""


def _report(call: Call[UbpTarget], event: Event) -> None:
    """Pass an event of the executor on: to an agent of UBP as it is, to others as a report of progress."""
    # Events are not masked: where there is something to mask, agents of UBP get none.
    if call.on_command_event is not None and call.masker is None:
        call.on_command_event(event)
    if call.on_progress is None or event.event_name != PROGRESS:
        return
    try:
        value = read_value(event.payload)
    except InvalidInput:
        return
    members = value if isinstance(value, Mapping) else {"progress": value}
    progress, total, message = (members.get(name) for name in ("progress", "total", "message"))
    if _is_number(progress):
        call.on_progress(
            float(progress),
            float(total) if _is_number(total) else None,
            message if isinstance(message, str) else None,
        )


def _is_number(value: object) -> TypeGuard[int | float | Decimal]:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _command(call: Call[UbpTarget]) -> Command:
    """Return the command as its sender wrote it, or one that is made of the arguments.

    Only a sender that used another of the tool's names has it replaced by that which the executor knows.
    """
    if call.command is not None:
        return replace(call.command, command_name=call.target.command_name)
    converted = build_struct_payload(call.arguments)
    notes = {"numbers_as_text": " ".join(converted.notes)} if converted.notes else {}
    return Command(call.call_id or uuid7().hex, call.target.command_name, converted.payload, notes)


def _json(result: CommandResult) -> bytes:
    try:
        return dumps(read_value(result.result))
    except (InvalidInput, orjson.JSONEncodeError):
        raise UpstreamMalformed("The result of the executor cannot be read as JSON.") from None


def _rejected(result: CommandResult) -> UpstreamRejected:
    """Return the error for a response that is not SUCCESS, with what the executor says."""
    body: dict[str, Any] = {"status": result.status.name, "error": result.error[:_MAX_ERROR]}
    response = UpstreamErrorResponse(choose_http_status(result.status), body)
    return UpstreamRejected(f"The executor responded with {result.status.name}.", response=response)

"""Call templates that name several servers: each is read on its own, so that none loses the others."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from app.core.errors import BlockedAddress, GatewayError, UpstreamError
from app.openapi.report import OperationOutcome, SourceWarning
from app.protocols.call_templates import protocol_of
from app.protocols.origins import destination, parts_of
from app.protocols.registry import PROTOCOLS
from app.providers.credentials.model import CredentialSlot, Json, slot_names
from app.providers.registration.model import ParsedSource, ToolDefinition, ToolDraft
from app.storage.models import Tool

_CONCURRENCY: Final = 8
_MAX_OUTPUT: Final = 1_000
_RETAINED: Final = "Its server could not be read, so it was left as it is."


@dataclass(frozen=True, slots=True)
class ServerParts:
    """What the servers of a template publish: `read` are pairs of a server's template and its document.

    `unread` are the names of those that could not be read, `warnings` say why.
    """

    read: tuple[tuple[Json, bytes], ...]
    unread: tuple[str, ...] = ()
    warnings: tuple[SourceWarning, ...] = ()


async def read_parts(
    template: Mapping[str, Any], fetch: Callable[[Json], Awaitable[bytes]], *, at: str
) -> ServerParts:
    """Return what `fetch` returns for each server of a template, eight at a time.

    Raise its error where no server can be read, and any but UpstreamError and BlockedAddress. `at` is the
    JSON pointer of the template.
    """
    record = PROTOCOLS[protocol_of(template)]
    parts = parts_of(template)
    permits = asyncio.Semaphore(_CONCURRENCY)

    async def read(part: Json) -> bytes | UpstreamError | BlockedAddress:
        async with permits:
            try:
                return await fetch(part)
            except (UpstreamError, BlockedAddress) as error:
                return error

    results = await asyncio.gather(*map(read, parts), return_exceptions=True)
    contents: list[tuple[Json, bytes]] = []
    failed: list[tuple[str, GatewayError]] = []
    for part, result in zip(parts, results, strict=True):
        if isinstance(result, bytes):
            contents.append((part, result))
        elif isinstance(result, UpstreamError | BlockedAddress):
            failed.append((record.part_pointer(part), result))
        else:
            raise result
    if not contents:
        raise _join_errors(failed)
    return ServerParts(
        tuple(contents),
        tuple(one for one, _ in failed),
        tuple(SourceWarning(_describe_failure(one, error), at + one) for one, error in failed),
    )


def with_stored_tools(
    parsed: ParsedSource, rows: Sequence[Tool], *, provider: str, slots: Sequence[CredentialSlot]
) -> ParsedSource:
    """Return the source with the stored tools of the servers that could not be read.

    `rows` are the imported tools of the provider, `slots` its slots as they are stored.
    """
    if not parsed.unread_parts:
        return parsed
    retained = [
        _build_draft(row, provider) for row in rows if _find_part(row.call_template) in parsed.unread_parts
    ]
    known = {slot.name for slot in parsed.slots}
    needed = {name for tool in retained for name in slot_names(tool.security)} - known
    outcomes = (
        OperationOutcome.of(tool.source_key, tool.name, pointer="", notes=(_RETAINED,)) for tool in retained
    )
    return replace(
        parsed,
        tools=(*parsed.tools, *retained),
        slots=(*parsed.slots, *(slot for slot in slots if slot.name in needed)),
        report=replace(parsed.report, operations=(*parsed.report.operations, *outcomes)),
    )


def _find_part(template: Mapping[str, Any]) -> str:
    return PROTOCOLS[protocol_of(template)].part_pointer(template)


def _build_draft(row: Tool, provider: str) -> ToolDraft:
    definition = ToolDefinition.from_row(row)
    local = row.name.removeprefix(f"{provider}.")
    return ToolDraft(
        source_key=row.source_key,
        name=local,
        description=definition.description,
        inputs=definition.inputs,
        outputs=definition.outputs,
        tags=definition.tags,
        call_template=definition.call_template,
        security=definition.security,
        origin=destination(definition.call_template),
        deprecated=definition.deprecated,
        average_response_size=definition.average_response_size,
        slimmed=definition.slimmed,
        keywords=definition.keywords,
        source_name=local,
    )


def _describe_failure(part_pointer: str, error: GatewayError) -> str:
    name = part_pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
    return f"The server {name!r} could not be read: {error.detail}{_describe_output(error)}"


def _describe_output(error: GatewayError) -> str:
    """Return a sentence with the end of what a program has written to standard error, masked already."""
    body = error.response.body if isinstance(error, UpstreamError) and error.response is not None else None
    text = body.get("stderr") if isinstance(body, dict) else None
    return f" It wrote: {text.strip()[-_MAX_OUTPUT:]}" if isinstance(text, str) and text.strip() else ""


def _join_errors(failed: Sequence[tuple[str, GatewayError]]) -> GatewayError:
    """Return the first of several errors, which says why the others failed, too."""
    error = failed[0][1]
    if len(failed) > 1:
        error.detail = "None of the servers can be read. " + " ".join(
            _describe_failure(at, one) for at, one in failed
        )
    return error

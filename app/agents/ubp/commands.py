"""Commands of agents: the tool that each one means, and its call by the one execution of calls."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple
from uuid import UUID

from sqlmodel import col, select

from app.agents.ubp.results import outcome_result
from app.calls import CallRequest, execute
from app.calls.options import CallOptions
from app.core.errors import FieldError, InvalidInput, NotFound, scopes_missing
from app.formats.ubp.model import TRACE_CONTEXT, Command, CommandResult
from app.formats.ubp.values import read_value
from app.protocols.command_routing import ProgressListener
from app.protocols.ubp.record import PROTOCOL as UBP
from app.protocols.ubp.template import MAX_COMMAND_NAME
from app.security.principal import Principal
from app.services import Services
from app.storage.models import Provider, Tool
from app.toolsets import AmbiguousTool, CallTarget

TIMEOUT: Final = "timeout_ms"
"""The member of a command's metadata with the milliseconds that its sender waits."""
RECORDING_RUN: Final = "recording_run"
"""The member of a command's metadata with the run of replays that its call belongs to."""
_MAX_TIMEOUT_MS: Final = 86_400_000
_MAX_NAMED: Final = 10
_MAX_CACHED: Final = 10_000


class _ExecutorTool(NamedTuple):
    """A tool that an executor has registered."""

    tool: str
    provider: str
    tags: list[str]


class CommandCaller:
    """Calls tools for the commands of agents; one instance per worker."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._snapshot: object = None
        self._names: dict[tuple[UUID, str], tuple[_ExecutorTool, ...]] = {}

    async def call(
        self,
        command: Command,
        principal: Principal,
        *,
        route: str,
        idempotency_key: str | None = None,
        on_event: ProgressListener | None = None,
    ) -> CommandResult:
        """Return the response to a command for a tool.

        `on_event` is called with the events of the executor. Errors of the gateway and of the tool become
        responses with their status. Raise Forbidden for a key without `tools:call`, and InvalidInput for
        arguments that cannot be read, and for a command that several executors have registered.
        """
        require_scope(principal, "tools:call")
        services = self._services
        request = CallRequest(
            principal,
            command.command_name,
            route,
            "ubp",
            arguments={}
            if command.arguments is None
            else read_value(command.arguments, location="/arguments"),
            deadline=_deadline(command),
            options=_read_options(command, idempotency_key),
            command=command,
            on_command_event=on_event,
        )
        target = await self.find_target(command.command_name, principal)
        # A name that means nothing is called as it is: the call fails, and is recorded, like any other.
        if target is not None:
            through = target.through
            request.principal, request.tool, request.presets = through.principal, target.tool, target.presets
            if not through.is_registry:
                request.toolset, request.upstream = through.toolset or "", through.options.upstream
                request.argument_repair = through.options.argument_repair
        outcome = await execute(request, services.calls)
        return await outcome_result(command, outcome, base_url=services.settings.base_url)

    async def require_right(self, name: str, principal: Principal) -> None:
        """Raise Forbidden or NotFound where a principal may not, or no longer, call what a command means."""
        require_scope(principal, "tools:call")
        if await self.find_target(name, principal) is None:
            raise NotFound(f"There is no tool {name}.")

    async def find_target(self, name: str, principal: Principal) -> CallTarget | None:
        """Return what a command executes, whose name is that of a tool, or of an executor's command; None
        where the principal may use neither.

        Raise InvalidInput for a command that several executors have registered, and for a name of several
        tools.
        """
        view = await self._services.collections.open_view(principal)
        with suppress(NotFound), _reject_ambiguous_names():
            return view.resolve(await view.get(name))
        found: list[CallTarget] = []
        for one in await self._registered(name, principal.tenant_id):
            if not view.is_registry:
                with suppress(NotFound), _reject_ambiguous_names():
                    found.append(view.target(one.tool))
            elif principal.may_use(one.provider, one.tags):
                found.append(CallTarget(one.tool, {}, view))
        if len(found) > 1:
            names = ", ".join(one.tool for one in found[:_MAX_NAMED])
            detail = f"Several executors have registered {name}. Name one of these: {names}."
            raise InvalidInput(detail, errors=[FieldError("/command_name", detail)])
        return found[0] if found else None

    async def _registered(self, command_name: str, tenant_id: UUID) -> tuple[_ExecutorTool, ...]:
        """Return the tools of executors whose command has this name; cached until the registry changes."""
        if not _may_be_command(command_name):
            return ()
        snapshot = await self._services.collections.directory.snapshot()
        if snapshot is not self._snapshot or len(self._names) > _MAX_CACHED:
            self._snapshot, self._names = snapshot, {}
        key = (tenant_id, command_name)
        found = self._names.get(key)
        if found is None:
            query = (
                select(Tool.name, Provider.name, Provider.tags)
                .join(Provider, col(Tool.provider_id) == col(Provider.id))
                .where(Provider.protocol == UBP.name, Tool.source_key == command_name)
                .where(Tool.tenant_id == tenant_id)
                .order_by(col(Tool.name))
            )
            async with self._services.database.read_session() as session:
                rows = (await session.execute(query)).all()
            found = self._names[key] = tuple(_ExecutorTool(*row) for row in rows)
        return found


@contextmanager
def _reject_ambiguous_names() -> Iterator[None]:
    """Raise InvalidInput, which names the member of the command, for a name of several tools."""
    try:
        yield
    except AmbiguousTool as error:
        problem = FieldError("/command_name", error.detail)
        raise InvalidInput(error.detail, errors=[problem], extra=error.extra) from None


def _may_be_command(name: str) -> bool:
    """Return whether a command may have this name. PostgreSQL rejects a text with a NUL, and names of any
    length would take memory.
    """
    return len(name) <= MAX_COMMAND_NAME and "\0" not in name


def require_scope(principal: Principal, scope: str, *alternatives: str) -> None:
    """Raise Forbidden where the key has neither the scope nor one of the alternatives.

    A connection needs one of the scopes of agents and executors; each command needs its own.
    """
    if not any(principal.has_scope(one) for one in (scope, *alternatives)):
        raise scopes_missing(f"The API key lacks the scope `{scope}`.", [scope])


def _read_options(command: Command, idempotency_key: str | None) -> CallOptions:
    """Return the options in the metadata of a command; raise BadRequest."""
    metadata = command.metadata
    headers = {name.encode(): metadata[name].encode() for name in TRACE_CONTEXT if name in metadata}
    if RECORDING_RUN in metadata:
        headers[b"x-recording-run"] = metadata[RECORDING_RUN].encode("latin-1", "replace")
    options = CallOptions.from_headers(headers)
    options.idempotency_key = idempotency_key
    return options


def _deadline(command: Command) -> float | None:
    """Return the `loop.time()` until which the sender waits, None where it does not say."""
    text = command.metadata.get(TIMEOUT)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= _MAX_TIMEOUT_MS and len(text) < 10):
        problem = FieldError(f"/metadata/{TIMEOUT}", "Give a whole number of milliseconds, from 1.")
        raise InvalidInput("The metadata of the command is not valid.", errors=[problem])
    return asyncio.get_running_loop().time() + int(text) / 1000

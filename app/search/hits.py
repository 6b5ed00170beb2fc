"""Search hits as JSON, serialised once, when a tool is indexed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from app.catalog.availability import is_available
from app.core import exact_json
from app.formats.dialects.cost import estimate_tool_cost
from app.formats.dialects.signature import write_signature
from app.protocols.command_routing import CommandRouter
from app.search.conditions import ToolCondition
from app.search.explanation import Explanation
from app.security.requirements import SlotAlternatives

_AVAILABLE: Final = {True: b"true", False: b"false", None: b"null"}


class ExecutorCommand(NamedTuple):
    """A command, and the provider whose executors execute it."""

    provider: str
    command_name: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: the tool's name, its score (0 where the query is empty), and its `json_members`.

    `executor_command` is None for a tool that no executor executes, `explanation` where none is wanted.
    """

    name: str
    score: float
    json_members: bytes
    executor_command: ExecutorCommand | None = None
    tool_id: UUID = field(kw_only=True)
    explanation: Explanation | None = None
    credential_slots: SlotAlternatives = ()
    """The slots of each alternative of credentials that its calls need; no client sees them."""

    @property
    def provider(self) -> str:
        """The name of its provider: names of providers have no dot."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTool:
    """What a hit shows of a tool. `inputs` is the JSON text of `schema`; `effects` as `catalog.annotations`
    gives them.
    """

    name: str
    alias: str
    provider: str
    description: str
    schema: Mapping[str, Any]
    inputs: str
    effects: Mapping[str, bool | None]
    average_response_size: int | None
    tags: Sequence[str]
    call_url: str


def json_members(tool: ShownTool) -> bytes:
    """Return the members of a hit that follow its score: a JSON object without its opening brace."""
    cost = estimate_tool_cost(
        tool.name, tool.description, tool.schema, average_response_size=tool.average_response_size
    )
    members = {
        "name": tool.name,
        "alias": tool.alias,
        "provider": tool.provider,
        "signature": write_signature(tool.name, tool.schema),
        "description": tool.description,
        "effects": tool.effects,
        "cost": cost,
        "inputs": orjson.Fragment(tool.inputs),
        "tags": tool.tags,
        "call_url": tool.call_url,
    }
    return exact_json.dumps(members)[1:]


def write_hits(
    hits: Sequence[Hit],
    *,
    is_available: Callable[[ExecutorCommand], bool | None],
    condition: Callable[[Hit], ToolCondition],
) -> bytes:
    """Return the hits as the JSON of `app.api.tools.schemas.ToolHits`.

    `is_available` tells whether an executor is connected that executes a command, `condition` what is known
    of a tool now.
    """
    items = b",".join(
        b'{"score":%s,"available":%s,%s,%s'
        % (
            repr(hit.score).encode(),
            _AVAILABLE[None if hit.executor_command is None else is_available(hit.executor_command)],
            # Without the braces.
            exact_json.dumps(condition(hit).as_json())[1:-1],
            hit.json_members,
        )
        for hit in hits
    )
    return b'{"items":[%s]}' % items


async def hit_availability(
    hits: Sequence[Hit], commands: CommandRouter, *, tenant_id: UUID
) -> Callable[[ExecutorCommand], bool | None]:
    """Return what tells of the command of a hit whether an executor is connected that executes it.

    Of tools that no executor executes, nothing is read.
    """
    if any(hit.executor_command is not None for hit in hits):
        await commands.follow_workers()
    return lambda command: is_available(
        commands, tenant_id=tenant_id, provider=command.provider, command_name=command.command_name
    )

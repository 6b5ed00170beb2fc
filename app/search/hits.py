"""Search hits as JSON, serialised once, when a tool is indexed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

import orjson

from app.search.explanation import Explanation

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


def json_members(
    *, name: str, alias: str, provider: str, description: str, inputs: str, tags: Sequence[str], call_url: str
) -> bytes:
    """Return the members of a hit that follow its score: a JSON object without its opening brace.

    `inputs` is JSON text.
    """
    members = {
        "name": name,
        "alias": alias,
        "provider": provider,
        "description": description,
        "inputs": orjson.Fragment(inputs),
        "tags": tags,
        "call_url": call_url,
    }
    return orjson.dumps(members)[1:]


def hits_json(hits: Sequence[Hit], *, is_available: Callable[[ExecutorCommand], bool | None]) -> bytes:
    """Return the hits as the JSON of `app.tools.schemas.ToolHits`.

    `is_available` tells whether an executor is connected that executes a command.
    """
    items = b",".join(
        b'{"score":%s,"available":%s,%s'
        % (
            repr(hit.score).encode(),
            _AVAILABLE[None if hit.executor_command is None else is_available(hit.executor_command)],
            hit.json_members,
        )
        for hit in hits
    )
    return b'{"items":[%s]}' % items

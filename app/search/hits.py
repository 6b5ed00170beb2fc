"""Search hits as JSON, serialised once, when a tool is indexed."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: the tool's name, its score (0 where the query is empty), and its `json_members`."""

    name: str
    score: float
    json_members: bytes


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


def hits_json(hits: Sequence[Hit]) -> bytes:
    """Return the hits as the JSON of `app.tools.schemas.ToolHits`."""
    items = b",".join(b'{"score":%s,%s' % (repr(hit.score).encode(), hit.json_members) for hit in hits)
    return b'{"items":[%s]}' % items

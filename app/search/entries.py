"""What an answer shows of a tool that was found, as JSON made once, when the tool is indexed."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that was found, its score (0 in a list that no words were asked for), and its `entry`."""

    name: str
    score: float
    entry: bytes


def entry(
    *, name: str, alias: str, provider: str, description: str, inputs: str, tags: Sequence[str], call_url: str
) -> bytes:
    """The members of a hit behind its score: a JSON object without its first brace. `inputs` is JSON."""
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


def body(hits: Sequence[Hit]) -> bytes:
    """The hits as `app.tools.schemas.ToolHits` describes them."""
    items = b",".join(b'{"score":%s,%s' % (repr(hit.score).encode(), hit.entry) for hit in hits)
    return b'{"items":[%s]}' % items

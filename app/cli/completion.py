"""Completion of names by the shell: the gateway is asked for those that begin with what was typed.

    utcp-gateway --install-completion

A shell waits for it, so it takes at most two seconds, and whatever fails is no name.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import typer

from app.cli.errors import CommandFailed
from app.cli.session import ClientSession, ConnectionOptions

_SECONDS: Final = 2.0
_ITEMS: Final = 200


def complete_provider_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of providers."""
    return [item["name"] for item in _list_items(ctx, "/providers", incomplete)]


def complete_tool_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of tools."""
    return [item["name"] for item in _list_items(ctx, "/tools", incomplete)]


def complete_toolset_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of toolsets."""
    return [item["name"] for item in _list_items(ctx, "/toolsets", incomplete)]


def complete_key_ids(ctx: typer.Context) -> list[tuple[str, str]]:
    """Return the ids of keys, each with its name."""
    # An id is not searched for by its beginning.
    return [(item["id"], item["name"]) for item in _list_items(ctx, "/keys", "")]


def complete_key_references(ctx: typer.Context) -> list[str]:
    """Return the names of keys, and the ids of those with another text than a word for a name."""
    ids = complete_key_ids(ctx)
    names = [name for _, name in ids]
    words = [name for name in names if names.count(name) == 1 and not any(map(str.isspace, name))]
    return [*words, *(key_id for key_id, name in ids if name not in words)]


def _list_items(ctx: typer.Context, path: str, incomplete: str) -> Iterable[Mapping[str, Any]]:
    """Return the items of a list of the gateway whose text contains `incomplete`; none where that fails."""
    session = ClientSession(_find_options(ctx), seconds=_SECONDS)
    try:
        query = {"q": incomplete or None, "limit": _ITEMS}
        items: list[Mapping[str, Any]] = session.gateway.get(path, query=query).json()["items"]
    except (CommandFailed, KeyError, TypeError):
        return []
    finally:
        session.close()
    return items


def _find_options(ctx: typer.Context) -> ConnectionOptions:
    """Return the shared options, after the command or before it: neither has run."""
    options = ConnectionOptions()
    for params in (ctx.params, ctx.find_root().params):
        values = {name: params.get(name) for name in ("url", "key", "key_file", "ca_file")}
        options = options.with_defaults(ConnectionOptions(**values))
    return options

"""The names that clients and operators depend on beside the contract.

They are those of problem types, scopes, settings, commands with their options, and metrics.

A release stores them in `tests/releases/VERSION/names.json`; to remove one later is a breaking change
(docs/versioning.md).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.cli.root import COMMANDS, load_command
from app.core.settings import Settings
from app.core.telemetry.families import list_families
from app.security.scopes import SCOPES
from app.server.problems.catalogue import describe_problem_types

Names = dict[str, list[str]]

_NOUNS: Final[Mapping[str, str]] = {
    "problem_types": "The problem type",
    "scopes": "The scope",
    "settings": "The setting",
    "commands": "The command",
    "metrics": "The metric",
}


def current_names() -> Names:
    """Return the names of this checkout, by kind, sorted."""
    found: Names = {
        "problem_types": [f"{one.slug} with status {one.status}" for one in describe_problem_types()],
        "scopes": list(SCOPES),
        "settings": [name.upper() for name in Settings.model_fields],
        "commands": [line for name in COMMANDS for line in _commands(name, load_command(name))],
        "metrics": [f"{one.name}{{{', '.join(one.labels)}}}" for one in list_families()],
    }
    return {kind: sorted(names) for kind, names in found.items()}


def removed_names(old: Names, new: Names) -> list[str]:
    """Return a sentence for each name that `old` has and `new` has not."""
    return [
        f"{_NOUNS[kind]} {name} was removed."
        for kind, names in old.items()
        for name in names
        if name not in new.get(kind, [])
    ]


def _commands(name: str, command: Any) -> Iterator[str]:
    """Yield a command, and it with each of its options; of a group, those of its commands."""
    inner = getattr(command, "commands", None)
    if inner is not None:
        for word, one in inner.items():
            yield from _commands(f"{name} {word}", one)
        return
    yield name
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            yield from (f"{name} {option}" for option in (*parameter.opts, *parameter.secondary_opts))

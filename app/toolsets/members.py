"""The tools of a toolset, as its definition and the directory say: resolved once for each state of both."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from app.catalog.tools import Viewer
from app.core import exact_json
from app.core.errors import NotFound, not_found
from app.core.suggestions import find_similar
from app.core.text import split_pointer
from app.formats.json_schema.input_lookup import may_have_input
from app.toolsets.agent_tool import AgentTool
from app.toolsets.definition import MemberChange, StoredDefinition
from app.toolsets.directory import Listing, Snapshot, may_see
from app.toolsets.hidden_inputs import without_inputs

ProblemKind = Literal["tool", "provider", "tag", "search", "change", "pinned", "name", "preset"]
_MAX_CACHED_VIEWS: Final = 64
_LOST_INPUT: Final = (
    "The tool has no input of this name, so it is left out of the toolset: change the preset, or remove it."
)


@dataclass(frozen=True, slots=True)
class MemberProblem:
    """A part of a definition that has no effect now: `name` is what it names, `detail` says why."""

    kind: ProblemKind
    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class MemberView:
    """The members that one client sees, and the names by which it may call them."""

    listing: Listing
    by_name: Mapping[str, AgentTool] = field(repr=False)
    is_restricted: bool
    """Whether there may be tools that the client does not see."""

    @classmethod
    def of(cls, tools: Iterable[AgentTool], *, is_restricted: bool) -> "MemberView":
        """Return the view of members in any order. A tool with another name here has none of its own."""
        listing = Listing.of(tools)
        names: dict[str, AgentTool] = {}
        for tool in listing.tools:
            if not tool.is_renamed:
                names.setdefault(tool.alias, tool)
                names.setdefault(tool.tool, tool)
        names |= {tool.name: tool for tool in listing.tools}
        return cls(listing, names, is_restricted)


@dataclass(frozen=True, slots=True)
class Members:
    """The tools of a toolset, whoever asks, and what of its definition has no effect."""

    tools: tuple[AgentTool, ...]
    problems: tuple[MemberProblem, ...]
    pinned: tuple[str, ...]
    former_names: Mapping[str, str] = field(default_factory=dict)
    _views: "OrderedDict[Any, MemberView]" = field(default_factory=OrderedDict, repr=False)

    def view(self, viewer: Viewer) -> MemberView:
        """Return the members that the viewer may call."""
        key = (viewer.providers, viewer.tags)
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = MemberView.of(
                (tool for tool in self.tools if may_see(viewer, tool)), is_restricted=key != (None, None)
            )
            while len(self._views) > _MAX_CACHED_VIEWS:
                self._views.popitem(last=False)
        return found

    def unknown(self, name: str, view: MemberView, *, toolset: str) -> NotFound:
        """Return the error for a name that a view does not have: what the tool is called now, that it was
        removed, or similar names.
        """
        canonical = self.former_names.get(name, name)
        for tool in view.listing.tools:
            if canonical in (tool.tool, tool.alias):
                return not_found(f"{name} is called {tool.name} in the toolset {toolset}.", [tool.name])
        is_hidden = any(canonical in (tool.tool, tool.alias) for tool in self.tools)
        # Whether a restricted client saw the removed tool is not known any more.
        if name in self.former_names and not is_hidden and not view.is_restricted:
            removed = f"{name} was removed from the toolset {toolset}: list its tools again."
            return NotFound(removed, hint=names_hint(toolset))
        similar = find_similar(name, (tool.name for tool in view.listing.tools), limit=3)
        detail = f"The toolset {toolset} has no tool {name}."
        return not_found(detail, similar) if similar else NotFound(detail, hint=names_hint(toolset))


def names_hint(toolset: str | None) -> str:
    """Return the hint where all names of a toolset are; "" for the registry, where the error has a hint."""
    if toolset is None:
        return ""
    return f"GET /toolsets/{toolset} has all names that the API key may use there; over MCP, tools/list."


def resolve_members(definition: StoredDefinition, snapshot: Snapshot) -> Members:
    """Return the members of a definition among the tools of a snapshot."""
    problems: list[MemberProblem] = []
    chosen = _chosen(definition, snapshot, problems)
    changes = _changes(definition, snapshot, chosen, problems)
    renamed = {change.name: tool for tool, change in changes.items() if change.name is not None}
    tools = []
    for tool in chosen.values():
        owner = renamed.get(tool.name, tool.tool)
        own = changes.get(tool.tool)
        if owner != tool.tool and (own is None or own.name is None):
            detail = f"{owner} has its name in this toolset, so {tool.tool} is left out: give it another one."
            problems.append(MemberProblem("name", tool.tool, detail))
            continue
        member = tool if own is None else _changed(tool, own, problems)
        if member is not None:
            tools.append(member)
    pinned = _pinned(definition, tools, problems)
    return Members(tuple(tools), tuple(problems), pinned, definition.former_names)


def _chosen(
    definition: StoredDefinition, snapshot: Snapshot, problems: list[MemberProblem]
) -> dict[str, AgentTool]:
    """Return the members by canonical name, as the registry has them."""
    chosen: dict[str, AgentTool] = {}
    for name in definition.tools:
        tool = snapshot.by_name.get(name)
        if tool is None:
            problems.append(MemberProblem("tool", name, "There is no enabled tool of this name."))
        else:
            chosen[tool.tool] = tool
    for kind, name, found in _selections(definition, snapshot):
        members = list(found)
        chosen |= {tool.tool: tool for tool in members}
        if not members:
            problems.append(MemberProblem(kind, name, "No enabled tool matches it."))
    for name in definition.exclude:
        tool = snapshot.by_name.get(name)
        if tool is not None:
            chosen.pop(tool.tool, None)
    if definition.read_only:
        return {name: tool for name, tool in chosen.items() if tool.read_only}
    return chosen


def _changes(
    definition: StoredDefinition,
    snapshot: Snapshot,
    chosen: Mapping[str, AgentTool],
    problems: list[MemberProblem],
) -> dict[str, MemberChange]:
    """Return the changes by canonical name. Of two for one tool, that by the canonical name counts."""
    changes: dict[str, MemberChange] = {}
    for name, change in definition.changes.items():
        found = snapshot.by_name.get(name)
        if found is None or found.tool not in chosen:
            problems.append(MemberProblem("change", name, "The toolset has no tool of this name now."))
        elif found.tool in changes or (name != found.tool and found.tool in definition.changes):
            problems.append(MemberProblem("change", name, f"There is another change of {found.tool}."))
        else:
            changes[found.tool] = change
    return changes


def _selections(
    definition: StoredDefinition, snapshot: Snapshot
) -> Iterator[tuple[ProblemKind, str, Iterable[AgentTool]]]:
    for provider in definition.providers:
        yield "provider", provider, (tool for tool in snapshot.tools if tool.provider == provider)
    for tag in definition.tags:
        yield "tag", tag, (tool for tool in snapshot.tools if tag in tool.registrar_tags)
    for text in definition.search:
        words = text.casefold().split()
        yield "search", text, (tool for tool in snapshot.tools if _has_words(tool, words))


def _has_words(tool: AgentTool, words: list[str]) -> bool:
    """Return whether a tool has all of the words.

    They are compared with text that the upstream controls, also its own tags: a search is a convenience,
    and no limit of access, unlike names, providers and tags of a registrar.
    """
    text = " ".join((tool.tool, tool.description, *tool.tags)).casefold()
    return all(word in text for word in words)


def _changed(tool: AgentTool, change: MemberChange, problems: list[MemberProblem]) -> AgentTool | None:
    """Return the member with its changes; None where it lost the input of a preset, since calls without the
    preset would do more than the definition permits.
    """
    inputs = tool.inputs_json
    if change.presets:
        original = tool.inputs
        schema, unknown = without_inputs(original, change.presets)
        lost = [one for one in unknown if not may_have_input(original, split_pointer(one))]
        if lost:
            problems += (MemberProblem("preset", f"{tool.tool}{pointer}", _LOST_INPUT) for pointer in lost)
            return None
        inputs = exact_json.dumps(schema)
    name = change.name or tool.name
    return replace(
        tool,
        name=name,
        is_renamed=name != tool.name,
        title=tool.title if change.title is None else change.title,
        description=tool.description if change.description is None else change.description,
        inputs_json=inputs,
        presets=change.presets,
    ).stamped()


def _pinned(
    definition: StoredDefinition, tools: list[AgentTool], problems: list[MemberProblem]
) -> tuple[str, ...]:
    names = {name: tool.name for tool in tools for name in (tool.alias, tool.tool, tool.name)}
    problems += (
        MemberProblem("pinned", name, "The toolset has no tool of this name now.")
        for name in definition.pinned
        if name not in names
    )
    return tuple(dict.fromkeys(names[name] for name in definition.pinned if name in names))

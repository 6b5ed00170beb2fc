"""What a toolset is: its members, and what differs in how agents see them."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self

import orjson
from pydantic import Field, field_validator, model_validator

from app.core import exact_json
from app.core.errors import InvalidDocument
from app.core.schemas import (
    ProviderName,
    ShortText,
    StrictModel,
    Tag,
    Text,
    ToolName,
    UpstreamModeInput,
)
from app.core.text import pointer, reject_unstorable
from app.security.principal import SchemaForm

AGENT_NAME: Final = r"^[A-Za-z0-9_-]{1,45}$"
MAX_MEMBERS: Final = 1_000
MAX_PRESET_BYTES: Final = 65_536
MAX_FORMER_NAMES: Final = 200
SCHEMAS: Final = (
    "How MCP and `describe_tools` show schemas: `portable`: as all released clients of agents read them, "
    "without references and look-around; `full`: as they are, with `$defs`. Calls are validated by the whole "
    "schema."
)
_VARIABLE: Final = re.compile(r"\$\{?[A-Za-z_][A-Za-z0-9_]*\}")

AgentName = Annotated[str, Field(pattern=AGENT_NAME, examples=["find_books"])]
SearchText = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        pattern=r"^[^\u0000-\u001F\u007F]*[^\s\u0000-\u001F\u007F][^\u0000-\u001F\u007F]*$",
    ),
]


class MemberChange(StrictModel):
    """What differs for one tool in this toolset."""

    name: AgentName | None = Field(None, description="The name that agents see in place of the tool's own.")
    title: Annotated[str, Field(max_length=80, pattern=r"^[^\u0000]*$")] | None = Field(
        None, description="The title for people."
    )
    description: Text | None = Field(None, description="The description in place of the tool's own.")
    presets: dict[Annotated[str, Field(min_length=1, max_length=500)], Any] = Field(
        default_factory=dict,
        max_length=100,
        description="Argument values by the name of an input, or by JSON pointer (`/body/account`). Agents "
        "neither see these inputs nor may they give them. They are no place for secrets: keys with "
        "`providers:read` read them, and `${VARIABLE}` is rejected.",
        examples=[{"branch": "north"}],
    )

    @field_validator("presets")
    @classmethod
    def _check_presets(cls, given: dict[str, Any]) -> dict[str, Any]:
        found = {name if name.startswith("/") else pointer("", name): value for name, value in given.items()}
        if len(found) < len(given):
            raise ValueError("must name each argument once")
        # By their parts, so that what is inside of a value comes right after it.
        for one, other in pairwise(sorted(found, key=lambda name: name.split("/"))):
            if other.startswith(f"{one}/"):
                raise ValueError(f"must not set {other}, which is inside of {one}")
        try:
            reject_unstorable(found)
            size = len(exact_json.dump_strictly(found))
        except (InvalidDocument, orjson.JSONEncodeError):
            raise ValueError("must be JSON values that can be stored") from None
        if size > MAX_PRESET_BYTES:
            raise ValueError(f"must have at most {MAX_PRESET_BYTES} bytes of JSON")
        if any(_VARIABLE.search(text) for text in _texts(found)):
            raise ValueError("must not contain ${VARIABLE}: presets are sent as they are")
        return found


class ResultBudget(StrictModel):
    """How much of a result an agent gets unless its request says otherwise."""

    max_bytes: Annotated[int, Field(ge=1_000, le=16 << 20, strict=True)] | None = None
    max_tokens: Annotated[int, Field(ge=250, le=4 << 20, strict=True)] | None = None


class ToolsetDefinition(StrictModel):
    """The members of a toolset, and how agents see them. A tool is a member by its name, its provider, a tag
    that a registrar set, or a search; names of tools that do not exist are reported.
    """

    tools: list[ToolName] = Field(
        default_factory=list, max_length=MAX_MEMBERS, description="Tools by canonical name or alias."
    )
    providers: list[ProviderName] = Field(
        default_factory=list, max_length=500, description="All tools of these providers."
    )
    tags: list[Tag] = Field(
        default_factory=list,
        max_length=64,
        description="All tools with one of these tags, of those that a registrar set.",
    )
    search: list[SearchText] = Field(
        default_factory=list,
        max_length=20,
        description="All tools that have every word of one of these texts in name, description or tags.",
    )
    exclude: list[ToolName] = Field(
        default_factory=list, max_length=MAX_MEMBERS, description="Tools that are no members."
    )
    changes: dict[ToolName, MemberChange] = Field(
        default_factory=dict,
        max_length=MAX_MEMBERS,
        description="What differs for single tools, by canonical name or alias.",
    )
    read_only: Annotated[bool, Field(strict=True)] = Field(
        False, description="Only tools whose annotations say that they change nothing."
    )
    mode: Literal["all", "search", "auto"] = Field(
        "auto",
        description="Which tools an MCP client lists: all, those that search for others, or, with `auto`, "
        "as their number demands.",
    )
    pinned: list[ToolName] = Field(
        default_factory=list, max_length=100, description="Tools that are listed in each mode."
    )
    argument_repair: Literal["off", "safe", "on"] = Field(
        "safe", description="Which mistakes in arguments are repaired before a call."
    )
    schemas: SchemaForm = Field("portable", description=SCHEMAS)
    result_budget: ResultBudget | None = None
    upstream: UpstreamModeInput | None = Field(
        None,
        description="Whether calls by the addresses of the toolset reach their upstreams, are recorded, "
        "replayed or mocked; null: as the key says. A key that replays or mocks does so here, too.",
    )

    @model_validator(mode="after")
    def _distinct_names(self) -> Self:
        names = [change.name for change in self.changes.values() if change.name is not None]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"must not give two tools the name {twice[0]}")
        return self


class StoredDefinition(ToolsetDefinition):
    """A definition as it is stored."""

    former_names: dict[AgentName, ShortText] = Field(default_factory=dict)
    """The canonical names of tools by the names that they had in this toolset before."""
    plugin: str = ""
    """The plugin that made the toolset, and deletes it; "" for none."""


def with_former_names(before: StoredDefinition | None, after: ToolsetDefinition) -> StoredDefinition:
    """Return a definition as it is stored: it remembers the names that its tools had before."""
    stored = StoredDefinition.model_validate(after.model_dump())
    if before is None:
        return stored
    former = dict(before.former_names)
    for tool, change in before.changes.items():
        now = after.changes.get(tool)
        if change.name is not None and (now is None or now.name != change.name):
            former.pop(change.name, None)
            former[change.name] = tool
    used = {change.name for change in after.changes.values()}
    kept = [(name, tool) for name, tool in former.items() if name not in used]
    return stored.model_copy(update={"former_names": dict(kept[-MAX_FORMER_NAMES:]), "plugin": before.plugin})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)

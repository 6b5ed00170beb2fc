"""Query parameters and response models of exports of tools for the clients of models."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.api.lists import TagFilter
from app.core.resource_names import PROVIDER_NAME
from app.core.schemas import StrictModel
from app.formats.dialects.dialects import Format, Strict
from app.search.parameters import QueryTexts
from app.toolsets.collection import ListMode

MAX_NAMES = 200
MAX_TOOLS = 10_000
SEARCH_LIMIT = 10
LIST_LIMIT = 1_000


class ExportQuery(StrictModel):
    """What an export has: tools by name, the best matches of a search, or all."""

    format: Format = Field(
        "openai-chat",
        description="The dialect of the client: of a model's provider, of a library, or of a protocol.",
        examples=["openai-chat"],
    )
    strict: Strict = Field(
        "auto",
        description="Whether the model can only write arguments that fit (constrained decoding): `auto` "
        "where nothing is lost, `true` also where maps and free-form values take another form, `false` "
        "never.",
    )
    names: list[Annotated[str, Field(max_length=2_000)]] = Field(
        default_factory=list,
        max_length=MAX_NAMES,
        description="Only these tools, by any of their names, in this order; several may be separated by "
        "commas. Unknown ones are reported. Meta-tools like `find_tools` and `read_more` can be named, too.",
        examples=[["library.searchBooks"]],
    )
    q: QueryTexts | None = Field(
        None,
        description="Only the best matches of this search, best first. Up to four texts, whose matches are "
        "taken in turn.",
        examples=["search books"],
    )
    provider: Annotated[str, Field(pattern=PROVIDER_NAME)] | None = Field(
        None, description="Only tools of this provider.", examples=["library"]
    )
    tag: TagFilter = None
    mode: ListMode | None = Field(
        None,
        description="Without names and search: `all` tools; with `search` the tools that search for others, "
        "and pinned ones; with `auto` as the toolset says, or as the number of tools demands. Default: `all` "
        "of the registry, `auto` of a toolset.",
    )
    limit: int | None = Field(
        None,
        ge=1,
        le=MAX_TOOLS,
        description="Maximum number of tools: 10 of a search, else 1,000. Others are counted in the report.",
    )


class ToolLoss(BaseModel):
    """What became of a keyword that the dialect does not have."""

    pointer: str = Field(description="Where it is in the original schema (RFC 6901).")
    keyword: str
    value: Any = Field(description="Its value; a long one is cut.")
    action: Literal["moved-to-description", "dropped", "converted", "inlined", "cut", "renamed"]
    effect: Literal["none", "hint", "looser", "narrower"] = Field(
        description="The exported schema says the same, says it as text, accepts more, or rejects some."
    )
    server_checks: bool = Field(description="Whether the gateway checks it when the tool is called: always.")


class ToolExportReport(BaseModel):
    """What the dialect cannot say about one tool."""

    name: str = Field(description="Canonical name.")
    alias: str | None = Field(description="The name in the export; null where it is not in there.")
    strict: bool
    strict_reason: str | None = Field(description="Why it is not strict, or not in the export.")
    grade: Literal["lossless", "hints", "looser", "narrower", "unsupported"]
    tokens: int = Field(description="Estimate of what the definition costs a model.")
    losses: list[ToolLoss]
    more_losses: int = Field(0, description="Losses that are not listed.")


class ExceededLimit(BaseModel):
    """A limit of the dialect for one request that the export exceeds."""

    limit: str
    value: int
    max: int


class ExportReport(BaseModel):
    """What an export does not have, or has in another form."""

    tools: list[ToolExportReport]
    unknown: list[str] = Field(description="Names that are no tools that this key may call.")
    omitted: int = Field(description="Number of tools beyond the limit.")
    limits: list[ExceededLimit]
    version: int | None = Field(None, description="Version of the table of the dialect.")
    checked_on: str | None = Field(None, description="Date of the sources of the table.")


class ToolExport(BaseModel):
    """Tools in the dialect of a client."""

    format: Format
    tools: list[dict[str, Any]] | dict[str, dict[str, Any]] = Field(
        description="What the client takes as its tools, as it is."
    )
    aliases: dict[str, dict[str, Any]] = Field(
        description="By name in the export: the canonical name, and how arguments are converted back. "
        "`POST /tool-calls` does that."
    )
    report: ExportReport
    prompt: str | None = Field(None, description="With `json-prompt`: the text for the model.")

"""What an agent test is: cases, the models that they run with, and what is asserted of each run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Discriminator, Field, SecretStr, Tag, field_validator, model_validator

from app.agents.tests.assertion_models import Assertion
from app.core.schemas import (
    ACCEPT_INTEGRAL_FLOAT,
    Number,
    ShortText,
    StrictModel,
    UrlText,
)
from app.core.text import pointer
from app.providers.credentials.input_models import secret_line

MAX_CASES: Final = 100
MAX_MODELS: Final = 10
MAX_REPEAT: Final = 50
MAX_ITERATIONS: Final = 50
DEFAULT_ITERATIONS: Final = 10
DEFAULT_MAX_TOKENS: Final = 4096
RESERVED_OPTIONS: Final = frozenset(
    {
        "model", "messages", "input", "instructions", "system", "systemInstruction", "system_instruction",
        "contents", "tools", "functions", "stream", "n", "previous_response_id", "conversation",
    }
)  # fmt: skip
"""Members of a model's request that the gateway writes."""

ModelDialect = Literal["anthropic", "openai-chat", "openai-responses", "gemini", "json-prompt"]
"""The APIs of models: Messages, Chat Completions, Responses, generateContent; and Chat Completions of a
model without tool calling, which writes its calls as JSON texts.
"""
LongText = Annotated[str, Field(max_length=200_000)]


def _is_base_url(value: str) -> str:
    """Return the URL without a slash at its end; raise ValueError for one that no path can be added to."""
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https"):
        msg = "must be a URL that begins with https:// or http://"
        raise ValueError(msg)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        msg = "must have no user, query or fragment"
        raise ValueError(msg)
    return value.rstrip("/")


BaseUrlText = Annotated[UrlText, AfterValidator(_is_base_url)]
ModelName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x20\x7f]+$")]


class ModelInput(StrictModel):
    """A model, with what a name alone does not say."""

    model: ModelName = Field(description="Its name at its API.", examples=["qwen3"])
    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = Field(
        None, description="Its name in the results. Default: `model`.", examples=["local qwen"]
    )
    dialect: ModelDialect | None = Field(
        None, description="The API that it is asked by. Default: as the prefix of its name tells."
    )
    base_url: BaseUrlText | None = Field(
        None,
        description="The base URL of its API, as its SDK takes it. The keys that the gateway is configured "
        "with are never sent there. Default: that of the provider.",
        examples=["https://models.example.com/v1"],
    )
    api_key: (
        Annotated[SecretStr, Field(min_length=1, max_length=4_000), AfterValidator(secret_line)] | None
    ) = Field(None, description="The key of its API, for this request only: it is not stored.")
    options: dict[Annotated[str, Field(min_length=1, max_length=100)], Any] = Field(
        default_factory=dict,
        max_length=50,
        description="Further members of each request, of Gemini's `generationConfig`.",
        examples=[{"reasoning_effort": "low"}],
    )

    @field_validator("options")
    @classmethod
    def _not_reserved(cls, given: dict[str, Any]) -> dict[str, Any]:
        reserved = sorted(RESERVED_OPTIONS & given.keys())
        if reserved:
            raise ValueError(f"must not have {reserved[0]}, which the gateway writes")
        return given


def _model_kind(value: Any) -> str:
    # No names of members, so that pointers do not have them.
    return "str" if isinstance(value, str) else "dict"


TestModel = Annotated[
    Annotated[ModelName, Tag("str")] | Annotated[ModelInput, Tag("dict")], Discriminator(_model_kind)
]
MinimumScore = Annotated[Number, Field(ge=0, le=1)]


class RunOptions(StrictModel):
    """How cases are run; what a case does not say, the members beside `cases` say for it."""

    models: Annotated[list[TestModel], Field(min_length=1, max_length=MAX_MODELS)] | None = Field(
        None,
        description="The models, by name (`claude-*`, `gpt-*`, `o*`, `gemini-*`) or as objects. Each case is "
        "run with each of them.",
        examples=[["claude-sonnet-4", "gpt-4o"]],
    )
    prompt: LongText | None = Field(None, description="The system prompt.")
    plugins: Annotated[list[ShortText], Field(max_length=50)] | None = Field(
        None,
        description="Plugins whose tools the model gets: toolsets of the same names. Unknown ones are "
        "skipped with a warning.",
        examples=[["filesystem", "github"]],
    )
    toolsets: Annotated[list[ShortText], Field(max_length=50)] | None = Field(
        None, description="Toolsets whose tools the model gets. Unknown ones are skipped with a warning."
    )
    tools: Annotated[list[ShortText], Field(max_length=200)] | None = Field(
        None, description="Single tools by name. Unknown ones are skipped with a warning."
    )
    repeat: Annotated[int, Field(ge=1, le=MAX_REPEAT, strict=True), ACCEPT_INTEGRAL_FLOAT] | None = Field(
        None, description="How often the case is run with each model. Default: 1."
    )
    pass_rate: Annotated[Number, Field(gt=0, le=1)] | None = Field(
        None, description="The part of the repetitions that must pass. Default: 1."
    )
    min_score: MinimumScore | None = Field(
        None,
        description="The score that a run must have to pass. Default: all assertions must hold.",
    )
    max_iterations: (
        Annotated[int, Field(ge=1, le=MAX_ITERATIONS, strict=True), ACCEPT_INTEGRAL_FLOAT] | None
    ) = Field(None, description=f"The most requests to the model in a run. Default: {DEFAULT_ITERATIONS}.")
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000, strict=True), ACCEPT_INTEGRAL_FLOAT] | None = Field(
        None, description=f"The most tokens of one response of the model. Default: {DEFAULT_MAX_TOKENS}."
    )
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = Field(
        None,
        description="Default: 0. Models of OpenAI that accept none (`o*`, `gpt-5*`) get none by default.",
    )


class AgentTestCase(RunOptions):
    """One task for a model, and what is asserted of what it responds and calls."""

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")] = Field(
        description="Its name in the results, different from that of all other cases.",
        examples=["reads a file"],
    )
    input: Annotated[LongText, Field(min_length=1)] = Field(
        description="What the user says.", examples=["What does notes.txt say?"]
    )
    assertions: list[Assertion] = Field(default_factory=list, max_length=100)


class TokenPrice(StrictModel):
    """The price of a million tokens."""

    input: Annotated[Number, Field(ge=0, le=1_000_000)]
    output: Annotated[Number, Field(ge=0, le=1_000_000)]


class AgentTestRequest(RunOptions):
    """A test: its cases, and options for all of them. A test with one case may have its `input` and
    `assertions` in place of `cases`.
    """

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = Field(
        None, description="The name of the test.", examples=["files"]
    )
    cases: Annotated[list[AgentTestCase], Field(min_length=1, max_length=MAX_CASES)] | None = None
    input: Annotated[LongText, Field(min_length=1)] | None = Field(
        None, description="Of a test with one case: what the user says."
    )
    assertions: Annotated[list[Assertion], Field(max_length=100)] | None = None
    prices: dict[Annotated[str, Field(min_length=1, max_length=200)], TokenPrice] = Field(
        default_factory=dict,
        max_length=100,
        description="Prices of a million tokens by the name of a model, for the costs in the results.",
        examples=[{"gpt-4o": {"input": 2.5, "output": 10}}],
    )
    currency: Annotated[str, Field(min_length=1, max_length=10, pattern=r"^[A-Za-z]+$")] = Field(
        "USD", description="The currency of the prices."
    )

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if (self.cases is None) == (self.input is None):
            raise ValueError("Give either `cases`, or the `input` of a single case.")
        if self.cases is not None and self.assertions is not None:
            raise ValueError("Give `assertions` in each of the `cases`.")
        names = [case.name for case in self.cases or ()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"must not have two cases of the name {twice[0]}")
        return self


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """A case with all of its options. `models` are as they were given, with their JSON pointers."""

    name: str
    input: str
    assertions: Sequence[Assertion]
    models: Sequence[tuple[str, str | ModelInput]]
    prompt: str
    plugins: Sequence[str]
    toolsets: Sequence[str]
    tools: Sequence[str]
    repeat: int
    pass_rate: float
    min_score: float | None
    max_iterations: int
    max_tokens: int
    temperature: float | None


def planned_cases(request: AgentTestRequest) -> Iterator[PlannedCase]:
    """Yield the cases of a request, each with what is said for all of them where it says nothing itself."""
    if request.cases is None:
        only = AgentTestCase(
            name=request.name or "test", input=request.input or "", assertions=request.assertions or []
        )
        yield _planned(only, request, at="")
        return
    for index, case in enumerate(request.cases):
        yield _planned(case, request, at=pointer("/cases", index))


def _planned(case: AgentTestCase, request: AgentTestRequest, *, at: str) -> PlannedCase:
    def chosen(name: str, default: Any) -> Any:
        own, shared = getattr(case, name), getattr(request, name)
        return own if own is not None else shared if shared is not None else default

    models, where = (case.models, at) if case.models is not None else (request.models or [], "")
    return PlannedCase(
        name=case.name,
        input=case.input,
        assertions=case.assertions,
        models=[(pointer(f"{where}/models", index), model) for index, model in enumerate(models)],
        prompt=chosen("prompt", ""),
        plugins=chosen("plugins", ()),
        toolsets=chosen("toolsets", ()),
        tools=chosen("tools", ()),
        repeat=chosen("repeat", 1),
        pass_rate=chosen("pass_rate", 1.0),
        min_score=chosen("min_score", None),
        max_iterations=chosen("max_iterations", DEFAULT_ITERATIONS),
        max_tokens=chosen("max_tokens", DEFAULT_MAX_TOKENS),
        temperature=chosen("temperature", None),
    )

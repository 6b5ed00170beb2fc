"""Models of responses, generated from the contract; `make client-models` writes them anew."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from uuid import UUID
from typing import Any
from datetime import datetime


class AllPagesInput(BaseModel):
    """
    How the pages of a list follow each other.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    by: str
    """
    `link`: the header Link with rel=next; `next`: a URL at `pointer` of the response; `cursor`: a value at `pointer`, which `argument` has in the next call; `page`, `offset`: numbers that `argument` has.
    """
    items: str | None = ''
    """
    JSON pointer to the list; empty where it is the response.
    """
    pointer: str | None = ''
    """
    JSON pointer to the URL or cursor of the next page.
    """
    argument: str | None = ''
    """
    The input of the tool.
    """
    max_pages: int | None = 20
    """
    At most so many.
    """


class ApprovalFailure(BaseModel):
    """
    Why an approval failed, or expired before its time.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    type: str
    title: str
    status: int
    detail: str


class ApprovalResult(BaseModel):
    """
    The result of an approved call. Exactly one of `json`, `text`, `base64` and `problem` is not null, unless the result is the JSON value null or empty.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    call_id: UUID | None
    """
    The record of the call, `GET /calls/{call_id}`.
    """
    upstream_status: int | None
    """
    The upstream's own status, where it responded.
    """
    media_type: str
    headers: dict[str, str] | None = None
    """
    Headers of the upstream's response that are passed on, e.g. `Location`, and `X-Pages`.
    """
    json_: Any | None = Field(None, alias='json')
    """
    The upstream's JSON.
    """
    text: str | None = None
    """
    The upstream's text.
    """
    base64: str | None = None
    """
    The upstream's response, where it is neither JSON nor text.
    """
    problem: dict[str, Any] | None = None
    """
    The problem document that the call failed with (RFC 9457).
    """


class ApprovalSubject(BaseModel):
    """
    What an approval is about.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    type: str
    name: str
    provider: str


class ContinuationPart(BaseModel):
    """
    A part of the rest of a result.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    items: list[Any] | None
    """
    The next items of the list that was cut; null where the part is a text.
    """
    text: str | None
    """
    The next part of the text, or the items as a table; null where there are `items`.
    """
    continuation: str | None
    """
    The handle of the next part; null at the end.
    """
    notes: list[str]
    """
    What is to be known of this part, e.g. that it was cut.
    """


class ExceededLimit(BaseModel):
    """
    A limit of the dialect for one request that the export exceeds.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    limit: str
    value: int
    max: int


class GrantedScope(BaseModel):
    """
    A scope, and what it allows.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    name: str
    description: str
    documentation_url: str


class HiddenValue(BaseModel):
    """
    A value that is not shown as it is sent.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    pointer: str
    """
    JSON pointer to it, from the resource that has `hidden`.
    """
    reason: str
    """
    `declared-secret`: by `writeOnly` or `format: password` of the tool's inputs. `known-secret`: it has a secret that the gateway knows. `too-large`: to be shown, or to tell whether it is a secret, or with more than 1,000 hidden parts. `earlier-release`: hidden by a release that did not list what it hid.
    """
    bytes: int
    """
    The size of the whole value as JSON, in bytes.
    """


class KeyWarningView(BaseModel):
    """
    A warning about a key.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    code: str
    """
    What the warning is about; new codes may be added.
    """
    detail: str
    hint: str
    """
    What to do.
    """


class RateLimitUsage(BaseModel):
    """
    The rate limit for calls of tools that applies to a key, and what is left of it now.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    requests: int
    per_seconds: int
    burst: int
    is_default: bool
    """
    Whether it is the gateway's rate limit for keys without their own.
    """
    remaining: int
    """
    Calls that could be made at once.
    """
    reset_seconds: int
    """
    Seconds until the limit is unused again.
    """


class RateLimitView(BaseModel):
    """
    A rate limit for calls of tools: `requests` per `per_seconds`, of which `burst` may be made at once.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    requests: int
    per_seconds: int
    burst: int


class Ready(BaseModel):
    """
    The state of the gateway. `degraded`: without PostgreSQL, only tools in the caches can be called.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    status: str
    database: str
    redis: str


class ResponseOptionsInput(BaseModel):
    """
    What the gateway does with the responses of a tool before a client gets them.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    all_pages: AllPagesInput | None = None
    """
    Read all pages of a list, and return them as one. Only for tools that are safe.
    """
    poll: bool | None = False
    """
    Follow a response with 202 and `Location` until the operation is done.
    """


class TokenHolder(BaseModel):
    """
    For whom an access token was issued.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    issuer: str
    """
    Claim `iss`.
    """
    subject: str
    """
    Claim `sub`.
    """
    client: str | None
    """
    Claim `client_id` or `azp`; null without it.
    """


class TokenView(BaseModel):
    """
    For whom the access token of the request was issued.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    issuer: str
    """
    Claim `iss`.
    """
    subject: str
    """
    Claim `sub`.
    """
    client: str | None
    """
    Claim `client_id` or `azp`; null without it.
    """
    principal: str
    """
    `oauth:` and a digest of issuer, subject and client: the `key_id` of its calls.
    """


class ToolAnnotations(BaseModel):
    """
    What agents are told about a tool; null: unknown.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    read_only: bool
    """
    It changes nothing.
    """
    destructive: bool | None
    """
    It may delete or overwrite.
    """
    idempotent: bool | None
    """
    Repeating a call changes nothing more.
    """
    open_world: bool
    """
    It deals with more than a fixed set of things.
    """
    header_inputs: dict[str, str] | None = None
    """
    Inputs that clients of MCP repeat in the header `Mcp-Param-<token>`, with the tokens.
    """
    risk_tier: str | None = None
    """
    What the ToolClad manifest of the tool states; null for other tools.
    """


class ToolCallResult(BaseModel):
    """
    What became of one call, whatever the dialect.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    id: str | int
    """
    The id of the call, or one made up where its dialect has none.
    """
    name: str
    """
    The name that the model called.
    """
    tool: str | None
    """
    The canonical name of the tool; null where there is none.
    """
    position: str
    """
    JSON pointer to the call in the request.
    """
    is_error: bool
    repairs: list[str]
    """
    What was repaired to read the arguments.
    """
    notes: list[str]
    """
    Repairs of values, cuts, and how to get the rest.
    """
    continuation: str | None
    """
    The handle by which the rest of a cut result is read.
    """
    call_id: str | None
    """
    The id of the call's record; null where no call was made.
    """
    status: int | None
    """
    The status that the call route would have responded with.
    """
    duplicate_of: str | int | None = None
    """
    The id of the identical call in the same message that was made in place of this.
    """
    error: dict[str, Any] | None = None
    """
    The members of the problem of a failed call.
    """
    retry_after: float | None = None
    """
    Seconds after which the call may be repeated.
    """


class ToolCallsResponse(BaseModel):
    """
    The results of a model's calls, in its dialect and as a list.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    format: str
    """
    The dialect of the request and of `messages`.
    """
    messages: list[Any]
    """
    Append these to the conversation, after the model's message.
    """
    results: list[ToolCallResult]
    cut: str | None
    """
    Why the model's output was cut; null where it was not.
    """


class ToolCost(BaseModel):
    """
    What a tool costs a model.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    tokens: int
    """
    Estimate of the tokens of its definition: bytes of its JSON / 4.
    """
    average_response_size: int | None
    """
    Bytes of a response on average, as its source states them; null where it does not.
    """


class ToolEffects(BaseModel):
    """
    What a call of a tool may do.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    read_only: bool
    """
    It changes nothing.
    """
    destructive: bool
    """
    It may delete or overwrite; true also where nothing is known and it is not read-only.
    """
    idempotent: bool | None
    """
    Repeating a call changes nothing more; null: unknown.
    """
    requires_approval: bool
    """
    Each call waits until another key has approved it (202).
    """
    deprecated: bool


class ToolHealthView(BaseModel):
    """
    How the upstream of a tool has responded in the last hour to the calls of all keys.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    error_rate: float
    """
    Share of the calls that failed at the upstream or on the way to it. Calls that the upstream rejected (4xx) and those with wrong arguments are no errors of the tool.
    """
    p95_ms: float | None
    """
    The 95th percentile of the durations; null where unknown.
    """
    calls_at_least: int
    """
    How many calls there were, rounded down to 5 or a power of ten.
    """


class ToolLoss(BaseModel):
    """
    What became of a keyword that the dialect does not have.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    pointer: str
    """
    Where it is in the original schema (RFC 6901).
    """
    keyword: str
    value: Any
    """
    Its value; a long one is cut.
    """
    action: str
    effect: str
    """
    The exported schema says the same, says it as text, accepts more, or rejects some.
    """
    server_checks: bool
    """
    Whether the gateway checks it when the tool is called: always.
    """


class ToolSource(BaseModel):
    """
    What the source of a tool says, where people may have said otherwise.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    description: str
    tags: list[str]
    keywords: list[str]


class ToolUsageView(BaseModel):
    """
    The calls of a tool in the last 7 days, by all keys.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    calls: int
    errors: int
    """
    Calls with an outcome other than ok, invalid-response, cancelled and replayed.
    """
    p95_ms: float | None
    """
    The 95th percentile of the durations; null where unknown.
    """
    last_called_at: datetime | None
    """
    When the last of the calls that are still recorded began; null where there is none.
    """


class ToolsetAddresses(BaseModel):
    """
    Where clients use a toolset.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    mcp: str
    """
    Its MCP server.
    """
    utcp: str
    """
    Its UTCP manual.
    """
    search: str
    tool_calls: str
    """
    Takes the response of a model.
    """


class ToolsetProblem(BaseModel):
    """
    A part of a definition that has no effect now.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    kind: str
    name: str
    """
    What the definition names.
    """
    detail: str


class ToolsetSummary(BaseModel):
    """
    A toolset as an item of a list.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    name: str
    title: str
    description: str
    tools: int
    """
    The number of its tools that this key may call.
    """
    addresses: ToolsetAddresses
    version: int
    """
    Its ETag is this number in quotes.
    """
    created_at: datetime
    updated_at: datetime


class ToolsetTool(BaseModel):
    """
    A tool of a toolset.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    name: str
    """
    The name that agents see.
    """
    tool: str
    """
    Canonical name.
    """
    title: str
    read_only: bool


class ToolsetView(BaseModel):
    """
    A toolset with its tools.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    name: str
    title: str
    description: str
    tools: int
    """
    The number of its tools that this key may call.
    """
    addresses: ToolsetAddresses
    version: int
    """
    Its ETag is this number in quotes.
    """
    created_at: datetime
    updated_at: datetime
    members: list[ToolsetTool]
    """
    The tools that this key may call, by name.
    """
    definition: dict[str, Any] | None
    """
    As in `PUT /toolsets/{name}`; null without `providers:read`, and for a key that is restricted: it has the preset values.
    """
    problems: list[ToolsetProblem]
    """
    Parts of the definition that have no effect now, e.g. tools that do not exist; empty where the definition is null.
    """


class UpstreamModeInput(BaseModel):
    """
    Whether calls reach their upstreams.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    mode: str
    """
    `live`: they do. `record`: they do, and what the upstreams respond is stored in the recording. `replay`: the recording responds, and nothing is sent. `mock`: responses are made from examples and schemas of the tools, and nothing is sent.
    """
    recording: str | None = None
    """
    The name of the recording, for `record` and `replay`.
    """
    seed: int | None = 0
    """
    Chooses the responses of `mock`: the same ones for the same seed and arguments.
    """


class VisibleView(BaseModel):
    """
    How much a key may see.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    providers: int
    """
    Providers within its restrictions; 0 without `providers:read` and `tools:read`. Of a key that is limited to toolsets: those of the tools in them.
    """
    tools: int
    """
    Tools within its restrictions, disabled ones included; 0 without `tools:read` and `tools:call`. Of a key that is limited to toolsets: the enabled ones in them.
    """


class WordContribution(BaseModel):
    """
    What one word contributes to a match.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    word: str
    """
    The word as it was searched for.
    """
    field: str
    """
    Where it matches best: `head` is name, tags, keywords and the first sentence of the description, `body` the rest and the inputs, `provider` the provider's name and title.
    """
    score: float
    """
    Its part of `words_score`.
    """
    synonym_of: str | None
    """
    The term of the search whose synonym it is.
    """


class ApprovalSummary(BaseModel):
    """
    An approval as an item of a list.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    id: UUID
    kind: str
    """
    `origin`: calls or token requests of a provider would go elsewhere. `credential`: stored credentials would be used in another way. `definition`: other security. `call`: one call.
    """
    state: str
    """
    `pending`; `approved` while the call is made; then `executed`, `failed`, `rejected` or `expired`.
    """
    subject: ApprovalSubject
    requested_by: str
    """
    Id of the key that requested it; `oauth:` and a digest for an access token.
    """
    requester: TokenHolder | None = None
    """
    Who requested a call with an access token; null for API keys.
    """
    requested_at: datetime
    expires_at: datetime
    """
    When it expires, unless it is decided before.
    """
    decided_by: str | None
    """
    Id of the key that decided.
    """
    decided_at: datetime | None
    comment: str
    """
    The comment of the decision.
    """
    ended_at: datetime | None
    """
    When it was executed, failed, was rejected or expired.
    """
    call_id: UUID | None
    """
    The record of the call that was made, `GET /calls/{call_id}`.
    """
    failure: ApprovalFailure | None
    decisions: list[str] | None = None
    """
    What the key of this request may decide about it now; empty where it is not pending. Absent in the response to a call.
    """
    hidden: list[HiddenValue] | None = None
    """
    All that is not shown of what would be done: the rest is shown exactly as it would be sent or applied. Null in lists, and where it is not known.
    """


class ApprovalView(BaseModel):
    """
    An approval with what it is about.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    id: UUID
    kind: str
    """
    `origin`: calls or token requests of a provider would go elsewhere. `credential`: stored credentials would be used in another way. `definition`: other security. `call`: one call.
    """
    state: str
    """
    `pending`; `approved` while the call is made; then `executed`, `failed`, `rejected` or `expired`.
    """
    subject: ApprovalSubject
    requested_by: str
    """
    Id of the key that requested it; `oauth:` and a digest for an access token.
    """
    requester: TokenHolder | None = None
    """
    Who requested a call with an access token; null for API keys.
    """
    requested_at: datetime
    expires_at: datetime
    """
    When it expires, unless it is decided before.
    """
    decided_by: str | None
    """
    Id of the key that decided.
    """
    decided_at: datetime | None
    comment: str
    """
    The comment of the decision.
    """
    ended_at: datetime | None
    """
    When it was executed, failed, was rejected or expired.
    """
    call_id: UUID | None
    """
    The record of the call that was made, `GET /calls/{call_id}`.
    """
    failure: ApprovalFailure | None
    decisions: list[str] | None = None
    """
    What the key of this request may decide about it now; empty where it is not pending. Absent in the response to a call.
    """
    hidden: list[HiddenValue] | None = None
    """
    All that is not shown of what would be done: the rest is shown exactly as it would be sent or applied. Null in lists, and where it is not known.
    """
    arguments: dict[str, Any] | None
    """
    Of a call: its arguments as they are sent, but for what `hidden` lists, which is `***`; null for other kinds.
    """
    operations: list[dict[str, Any]] | None
    """
    Of a provider: the first 1,000 of its pending changes, as in `pending` of the provider, which has all; null for calls.
    """
    operation_count: int | None
    """
    Of a provider: the number of its pending changes.
    """


class HitExplanation(BaseModel):
    """
    Why a match has its score: the sum of the shares, plus 100 where the search is the tool's name; 200 and more where it is pinned.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    words: list[WordContribution]
    words_score: float
    """
    BM25 of all words.
    """
    words_share: float
    """
    `words_score` by that of the best match.
    """
    cosine: float | None
    """
    The cosine of the vectors of search and tool; null where the ranking is by words.
    """
    vector_share: float
    prior: float
    """
    From 0 to 1: how much the tool was called after such searches.
    """
    prior_share: float
    exact: bool
    """
    The search is the tool's name.
    """
    pinned: bool
    """
    It is pinned for the words of the search.
    """


class MeView(BaseModel):
    """
    The key of the request, or its access token, and what it may do. Of a token, `id` is derived from its principal, and `created_at` is when it was issued, or first used where it does not say.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    id: str
    name: str
    owner: str
    purpose: str
    scopes: list[str]
    providers: list[str] | None
    tags: list[str] | None
    toolsets: list[str] | None
    """
    The toolsets through which alone it uses tools; null: no such limit.
    """
    rate_limit: RateLimitView | None
    """
    Its own rate limit; null where the gateway's default applies.
    """
    argument_repair: str | None = None
    """
    Its repair of arguments; null where the toolset or the interface decides.
    """
    upstream: UpstreamModeInput | None = None
    """
    Whether its calls reach their upstreams, are recorded, replayed or mocked; null: they do, unless a toolset says otherwise. The calls of a key that replays or mocks never do, by any address.
    """
    schemas: str | None = None
    """
    How MCP and `describe_tools` show schemas: `portable`: as all released clients of agents read them, without references and look-around; `full`: as they are, with `$defs`. Calls are validated by the whole schema. null: as the toolset says, else `portable`.
    """
    state: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """
    Updated about once a minute.
    """
    rotated_from: str | None
    """
    The key that this one succeeds by rotation.
    """
    successor_id: str | None
    """
    The key that succeeds this one by rotation.
    """
    warnings: list[KeyWarningView]
    """
    What needs attention: the key expires soon, was not used for long, is an admin key without expiry, or is restricted to what does not exist. Empty for a key that is not valid.
    """
    access_token: TokenView | None = None
    """
    For whom the access token was issued; null for an API key.
    """
    tenant_id: UUID
    is_admin: bool
    """
    Whether it has `admin`, which includes every other scope.
    """
    scope_descriptions: list[GrantedScope]
    """
    What its `scopes` allow.
    """
    rate_limit_usage: RateLimitUsage | None
    """
    null where no rate limit applies.
    """
    visible: VisibleView


class ToolDetails(BaseModel):
    """
    A tool with its schemas and its call template (without secrets).
    """
    model_config = ConfigDict(
        extra='allow',
    )
    name: str
    """
    Canonical name, `provider.tool`.
    """
    alias: str
    """
    The name for clients that allow no dot in names.
    """
    agent_name: str
    """
    The name that agents see: the alias in at most 45 characters.
    """
    provider: str
    description: str
    tags: list[str]
    keywords: list[str] | None = None
    """
    Further words by which search finds it.
    """
    enabled: bool
    """
    Whether it can be called; also false where its provider is disabled.
    """
    available: bool | None = None
    """
    Whether an executor is connected that executes it; null for tools that no executor executes.
    """
    deprecated: bool
    requires_approval: bool
    """
    Whether each call waits until another key has approved it (202).
    """
    annotations: ToolAnnotations
    """
    What its method of HTTP tells, and what an operator has set.
    """
    publish_output_schema: bool
    """
    Whether agents see the schema of its responses, which are compared with it then.
    """
    response_options: ResponseOptionsInput | None = None
    """
    Whether all pages of a list are read, and operations are polled.
    """
    custom: bool
    """
    Created with `POST /tools`, not imported.
    """
    version: int
    """
    Its ETag is this number in quotes.
    """
    call_url: str
    cost: ToolCost
    missing_credential: bool | None = None
    """
    Whether its provider has no credential that its calls need; null where that is not known yet.
    """
    updated_at: datetime
    usage: ToolUsageView | None = None
    """
    In a list with `usage=true`, else null.
    """
    inputs: dict[str, Any]
    """
    JSON Schema of the arguments object.
    """
    outputs: dict[str, Any]
    """
    JSON Schema of the response, `{}` where unknown.
    """
    slimmed: list[str]
    """
    The steps by which a large tool was reduced for models.
    """
    call_template: dict[str, Any]
    security: list[list[dict[str, Any]]]
    """
    Credential slots that it needs: any one alternative, with all of its slots.
    """
    average_response_size: int | None
    output_schema_withdrawn_at: datetime | None = None
    """
    When the gateway set `publish_output_schema` to false because responses deviated from the schema; null where it did not, or where the schema was published again.
    """
    source: ToolSource | None = None
    """
    With `source=true`: what the source says of it, else null.
    """
    created_at: datetime


class ToolExportReport(BaseModel):
    """
    What the dialect cannot say about one tool.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    name: str
    """
    Canonical name.
    """
    alias: str | None
    """
    The name in the export; null where it is not in there.
    """
    strict: bool
    strict_reason: str | None
    """
    Why it is not strict, or not in the export.
    """
    grade: str
    tokens: int
    """
    Estimate of what the definition costs a model.
    """
    losses: list[ToolLoss]
    more_losses: int | None = 0
    """
    Losses that are not listed.
    """


class ToolHit(BaseModel):
    """
    A search result.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    health: ToolHealthView | None = None
    """
    null where the tool had fewer than five calls in the last hour.
    """
    missing_credential: bool | None = None
    """
    Whether its provider has no credential that its calls need; null where that is not known yet. `GET /providers/{name}` has the slots, for keys with `providers:read`.
    """
    explanation: HitExplanation | None = None
    """
    With `explain=true`: why it has its score; null where tools are listed by name, and for a tool of a toolset that was found by its name there.
    """
    score: float
    """
    What the words contribute, 1 at most, and vectors and use, where there are any; 100 more where the query is the tool's name; 200 or more where it is pinned; 0 without a query.
    """
    available: bool | None = None
    """
    Whether an executor is connected that executes it; null for tools that no executor executes.
    """
    name: str
    alias: str
    provider: str
    signature: str
    """
    Its inputs on one line, required ones with a star; at most 300 characters.
    """
    description: str
    effects: ToolEffects
    cost: ToolCost
    inputs: dict[str, Any]
    tags: list[str]
    call_url: str


class ToolSummary(BaseModel):
    """
    A tool as an item of a list.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    name: str
    """
    Canonical name, `provider.tool`.
    """
    alias: str
    """
    The name for clients that allow no dot in names.
    """
    agent_name: str
    """
    The name that agents see: the alias in at most 45 characters.
    """
    provider: str
    description: str
    tags: list[str]
    keywords: list[str] | None = None
    """
    Further words by which search finds it.
    """
    enabled: bool
    """
    Whether it can be called; also false where its provider is disabled.
    """
    available: bool | None = None
    """
    Whether an executor is connected that executes it; null for tools that no executor executes.
    """
    deprecated: bool
    requires_approval: bool
    """
    Whether each call waits until another key has approved it (202).
    """
    annotations: ToolAnnotations
    """
    What its method of HTTP tells, and what an operator has set.
    """
    publish_output_schema: bool
    """
    Whether agents see the schema of its responses, which are compared with it then.
    """
    response_options: ResponseOptionsInput | None = None
    """
    Whether all pages of a list are read, and operations are polled.
    """
    custom: bool
    """
    Created with `POST /tools`, not imported.
    """
    version: int
    """
    Its ETag is this number in quotes.
    """
    call_url: str
    cost: ToolCost
    missing_credential: bool | None = None
    """
    Whether its provider has no credential that its calls need; null where that is not known yet.
    """
    updated_at: datetime
    usage: ToolUsageView | None = None
    """
    In a list with `usage=true`, else null.
    """


class ToolsetHit(BaseModel):
    """
    A search result.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    health: ToolHealthView | None = None
    """
    null where the tool had fewer than five calls in the last hour.
    """
    missing_credential: bool | None = None
    """
    Whether its provider has no credential that its calls need; null where that is not known yet. `GET /providers/{name}` has the slots, for keys with `providers:read`.
    """
    explanation: HitExplanation | None = None
    """
    With `explain=true`: why it has its score; null where tools are listed by name, and for a tool of a toolset that was found by its name there.
    """
    name: str
    """
    The name that agents see.
    """
    title: str
    provider: str
    signature: str
    """
    Its inputs on one line, required ones with a star; at most 300 characters.
    """
    effects: ToolEffects
    cost: ToolCost
    description: str
    inputs: dict[str, Any]
    """
    JSON Schema of the arguments object, without preset ones.
    """
    tags: list[str]
    read_only: bool
    available: bool | None = None
    """
    Whether an executor is connected that executes it; null for tools that no executor executes.
    """
    call_url: str


class ToolsetPage(BaseModel):
    """
    A page of toolsets.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    items: list[ToolsetSummary]
    next_cursor: str | None
    """
    The `cursor` of the next page; null on the last page.
    """
    total: int | None
    """
    The number of items on all pages together; null where there are more than 10,000, or where they were not counted.
    """
    total_at_least: int | None
    """
    10,000 where there are more items than that, else null.
    """


class WaitingForApproval(BaseModel):
    """
    The response to the call of a tool that requires approval.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    approval: ApprovalSummary


class ApprovalPage(BaseModel):
    """
    A page of approvals.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    items: list[ApprovalSummary]
    next_cursor: str | None
    """
    The `cursor` of the next page; null on the last page.
    """
    total: int | None
    """
    The number of items on all pages together; null where there are more than 10,000, or where they were not counted.
    """
    total_at_least: int | None
    """
    10,000 where there are more items than that, else null.
    """


class ExportReport(BaseModel):
    """
    What an export does not have, or has in another form.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    tools: list[ToolExportReport]
    unknown: list[str]
    """
    Names that are no tools that this key may call.
    """
    omitted: int
    """
    Number of tools beyond the limit.
    """
    limits: list[ExceededLimit]
    version: int | None = None
    """
    Version of the table of the dialect.
    """
    checked_on: str | None = None
    """
    Date of the sources of the table.
    """


class ToolExport(BaseModel):
    """
    Tools in the dialect of a client.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    format: str
    tools: list[dict[str, Any]] | dict[str, dict[str, Any]]
    """
    What the client takes as its tools, as it is.
    """
    aliases: dict[str, dict[str, Any]]
    """
    By name in the export: the canonical name, and how arguments are converted back. `POST /tool-calls` does that.
    """
    report: ExportReport
    prompt: str | None = None
    """
    With `json-prompt`: the text for the model.
    """


class ToolPage(BaseModel):
    """
    A page of tools.
    """
    model_config = ConfigDict(
        extra='allow',
    )
    items: list[ToolSummary]
    next_cursor: str | None
    """
    The `cursor` of the next page; null on the last page.
    """
    total: int | None
    """
    The number of items on all pages together; null where there are more than 10,000, or where they were not counted.
    """
    total_at_least: int | None
    """
    10,000 where there are more items than that, else null.
    """

"""`GET /continuations/{handle}`: the rest of a result that was cut to a budget."""

from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, Field

from app.api.authorisation import requires
from app.api.dependencies import UsesServices
from app.calls.results import ResultBudget, read_continuation
from app.core import exact_json
from app.core.schemas import problem_responses
from app.security.principal import Principal

router = APIRouter(tags=["tools"])

CallsTools = Annotated[Principal, Depends(requires("tools:call"))]
_MAX: Final = 999_999_999
_NO_STORE: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"Cache-Control": {"schema": {"type": "string"}, "description": "`no-store`."}}}
}


class ContinuationQuery(BaseModel, extra="forbid"):
    """How much of the rest is returned, and in which form."""

    max_bytes: int | None = Field(None, ge=1, le=_MAX, description="The maximum size of this part, in bytes.")
    max_tokens: int | None = Field(
        None, ge=1, le=_MAX, description="The maximum size of this part; a token counts as three bytes."
    )
    format: Literal["json", "toon", "markdown", "csv"] | None = Field(
        None, description="The form of a table; JSON otherwise."
    )

    def budget(self) -> ResultBudget:
        """Return the budget of this part."""
        return ResultBudget(self.max_bytes, self.max_tokens, (), self.format)


class ContinuationPart(BaseModel):
    """A part of the rest of a result."""

    items: list[Any] | None = Field(
        description="The next items of the list that was cut; null where the part is a text."
    )
    text: str | None = Field(
        description="The next part of the text, or the items as a table; null where there are `items`."
    )
    continuation: str | None = Field(description="The handle of the next part; null at the end.")
    notes: list[str] = Field(description="What is to be known of this part, e.g. that it was cut.")


@router.get(
    "/continuations/{handle}",
    operation_id="readContinuation",
    summary="Read the rest of a result",
    response_model=ContinuationPart,
    responses=problem_responses(404) | _NO_STORE,
)
async def get_continuation(
    handle: Annotated[
        str, Path(max_length=100, description="The handle of a response, in its header `X-Continuation`.")
    ],
    query: Annotated[ContinuationQuery, Query()],
    principal: CallsTools,
    services: UsesServices,
) -> Response:
    """Return the next part of a result that was cut to a budget (`Prefer: max-bytes=...` of a call), without
    calling the upstream again. For ten minutes, only the key that made the call may read it, as often as it
    wants; the others get 404.
    """
    read = await read_continuation(
        handle, principal=principal, continuations=services.continuations, budget=query.budget()
    )
    content = exact_json.dumps(
        {
            "items": None if read.body is None else orjson.Fragment(read.body),
            "text": None if read.body is not None else read.content or read.text,
            "continuation": read.continuation,
            "notes": read.notes,
        }
    )
    return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})

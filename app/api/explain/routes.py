"""`GET /explain`."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from app.api.authorisation import requires_key
from app.api.dependencies import UsesServices
from app.api.explain.schemas import ExplanationView
from app.calls.explanation import CallExplainer
from app.core.resource_names import TOOL_NAME, TOOLSET_NAME
from app.core.schemas import problem_responses
from app.security.keys import KEY_ID_PATTERN
from app.security.principal import Principal
from app.toolsets.explanation import AccessExplainer

router = APIRouter(tags=["keys"])

AnyKey = Annotated[Principal, Depends(requires_key)]
ToolQuery = Annotated[
    str,
    Query(
        pattern=TOOL_NAME,
        description="Canonical name or alias of the tool.",
        examples=["library.searchBooks"],
    ),
]
KeyQuery = Annotated[
    str | None,
    Query(
        pattern=KEY_ID_PATTERN,
        description="Id of the key, never its text. Default: the key of the request; another one needs "
        "`keys:manage`.",
    ),
]
ToolsetQuery = Annotated[
    str | None,
    Query(
        pattern=TOOLSET_NAME,
        description="A toolset by whose address the tool is called; `tool` may then be its name there.",
        examples=["support"],
    ),
]


@router.get(
    "/explain",
    operation_id="explainAccess",
    summary="Explain whether a key may call a tool",
    responses=problem_responses(404),
)
async def explain_access(
    principal: AnyKey,
    services: UsesServices,
    *,
    tool: ToolQuery,
    key: KeyQuery = None,
    toolset: ToolsetQuery = None,
) -> ExplanationView:
    """Explain whether a key may see and call a tool now, by the same rules as a call, which is not made.

    With `toolset`, of a call by the address of this toolset. 404 for a key, a tool or a toolset that the
    requesting key may not see. Any valid key may ask about itself.
    """
    calls = CallExplainer(services.calls, services.database, services.engine.network, services.commands)
    explainer = AccessExplainer(calls, services.keys, services.collections, services.database)
    explanation = await explainer.explain(tool, key_id=key, toolset=toolset, principal=principal)
    return ExplanationView.of(explanation)

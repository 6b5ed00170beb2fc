"""`GET /explain`."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from app.access import requires_key
from app.access.repository import KeyState, find_visible, state_of
from app.api.dependencies import UsesServices
from app.api.explain.schemas import ExplanationView
from app.calls.explanation import CallExplainer, Check, may_look_up
from app.core.errors import NotFound, not_found, scopes_missing
from app.core.resource_names import TOOL_NAME, TOOLSET_NAME
from app.core.schemas import UpstreamModeInput, problem_responses
from app.core.upstream_mode import choose_mode
from app.security.keys import KEY_ID_PATTERN
from app.security.principal import Principal
from app.services import Services
from app.storage.models import Key
from app.toolsets import AmbiguousTool, CallTarget

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
_STATES: Final[dict[KeyState, str]] = {
    "active": "The key is valid.",
    "expired": "The key has expired.",
    "revoked": "The key was revoked.",
}


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
    subject = principal
    before = [Check("key-state", True, _STATES["active"])]
    if key is not None and key != principal.key_id:
        row = await _other_key(key, principal, services)
        subject = services.keys.principal_of(row)
        before = [_key_state(row)]
    explainer = CallExplainer(services.calls, services.database, services.engine.network, services.commands)
    viewer, of_toolset = principal, None
    through = None
    if toolset is not None and may_look_up(principal):
        through = (await services.collections.toolset(toolset, principal)).target(tool)
    elif subject.toolsets is not None and may_look_up(principal):
        through = await _find_target(tool, subject, services, is_own=subject is principal)
    if through is not None:
        tool, of_toolset = through.tool, through.through.options.upstream
        name = through.through.toolset or ""
        viewer = viewer.within_toolset(name) or viewer
        # A key that is limited to other toolsets does not pass the check of its restrictions.
        subject = subject.within_toolset(name) or subject
    mode = choose_mode(subject.upstream, of_toolset)
    explanation = await explainer.explain(tool, principal=subject, viewer=viewer, mode=mode)
    view = ExplanationView.of(explanation, key_id=subject.key_id, key_name=subject.name, before=before)
    if mode is not None:
        view.upstream = UpstreamModeInput.model_validate(mode.to_stored())
    return view


async def _find_target(
    tool: str, subject: Principal, services: Services, *, is_own: bool
) -> CallTarget | None:
    """Return what a key that is limited to toolsets calls by a name, None where another key is asked about
    that has no tool of the name; raise NotFound where the requesting key has none, or several.
    """
    try:
        return (await services.collections.open_view(subject)).target(tool)
    except AmbiguousTool as error:
        raise not_found(error.detail, error.extra["suggestions"]) from None
    except NotFound:
        if is_own:
            raise
        return None


async def _other_key(key_id: str, principal: Principal, services: Services) -> Key:
    """Return another key than the request's, revoked or not; raise Forbidden and NotFound."""
    if not principal.has_scope("keys:manage"):
        raise scopes_missing(
            "For another key than itself, the API key needs the scope `keys:manage`.", ["keys:manage"]
        )
    async with services.database.read_session() as session:
        row = await find_visible(session, key_id, principal=principal, include_revoked=True)
    if row is None:
        raise NotFound("There is no such key.")
    return row


def _key_state(row: Key) -> Check:
    state = state_of(row)
    if state == "active":
        return Check("key-state", True, _STATES[state])
    hint = "Create another key with POST /keys."
    if row.successor_id is not None:
        hint = f"Use its successor {row.successor_id}."
    return Check("key-state", False, _STATES[state], hint)

"""`GET /executors`: the executors that are connected, at all workers."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field

from app.api.authorisation import requires
from app.api.dependencies import UsesPageLinks, services_of
from app.catalog.tools import visible_providers
from app.core.pagination import ItemField, PageQuery, paginate_items
from app.core.resource_names import PROVIDER_NAME
from app.core.schemas import PAGE_HEADERS, PageModel, problem_responses
from app.protocols.command_routing import ConnectedExecutor
from app.security.principal import Principal

router = APIRouter(tags=["executors"])

ExecutorState = Literal["idle", "busy", "full"]

_FIELDS: Final = {
    "executor": ItemField("executor"),
    "connected_at": ItemField("connected_at", datetime),
}


class ExecutorQuery(PageQuery):
    """Order and filters of the connected executors. `q` searches the names of executors and commands."""

    sort: Literal["executor", "-executor", "connected_at", "-connected_at"] = Field(
        "executor", description="Order of the items; `-` for descending."
    )
    executor: Annotated[str, Field(pattern=PROVIDER_NAME)] | None = Field(
        None, description="Only connections of this executor.", examples=["orders"]
    )
    state: ExecutorState | None = Field(None, description="Only connections in this state.")


class ConnectedExecutorView(BaseModel):
    """A connection of an executor."""

    id: str = Field(examples=["0199f0c45e3a7c0fb1d0a2b3c4d5e6f7"])
    executor: str = Field(description="The name of its provider.", examples=["orders"])
    state: ExecutorState = Field(
        description="`idle`: it has no open commands; `full`: further commands wait until one has ended; "
        "else `busy`."
    )
    transport: str = Field(description="`websocket` or `grpc`.", examples=["websocket"])
    key_id: str = Field(description="The id of the API key with which it has connected.")
    commands: list[str] = Field(description="What it executes.", examples=[["get_order_status"]])
    open_commands: int = Field(description="Commands that it executes, or that wait for it.", examples=[0])
    max_commands: int = Field(description="Commands that it executes at once.", examples=[32])
    connected_at: datetime


class ExecutorPage(PageModel[ConnectedExecutorView]):
    """A page of the connected executors."""


@router.get(
    "/executors",
    operation_id="listExecutors",
    summary="List the connected executors",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_executors(
    request: Request,
    principal: Annotated[Principal, Depends(requires("providers:read"))],
    links: UsesPageLinks,
    query: Annotated[ExecutorQuery, Query()],
) -> ExecutorPage:
    """List the executors that are connected, at all workers, of the providers that this key may see.

    An executor with several connections is listed once for each. The tools of one that is not connected are
    still registered: see `GET /tools`.
    """
    connected = await services_of(request).commands.executors(principal.tenant_id)
    visible = await _visible(request, connected, principal)
    found = paginate_items(
        (view for view in map(_view, visible) if _matches(view, query)),
        fields=_FIELDS,
        item_id="id",
        page=query.page(),
    )
    links.set(found.next_cursor)
    return ExecutorPage.of(found, found.rows)


async def _visible(
    request: Request, connected: Iterable[ConnectedExecutor], principal: Principal
) -> list[ConnectedExecutor]:
    """Return the connections of the providers that the principal may see."""
    connected = list(connected)
    if not principal.is_restricted or not connected:
        return connected
    names = {one.executor for one in connected}
    async with services_of(request).database.read_session() as session:
        seen = await visible_providers(session, principal, names=names, tenant_id=principal.tenant_id)
    return [one for one in connected if one.executor in seen]


def _view(one: ConnectedExecutor) -> ConnectedExecutorView:
    return ConnectedExecutorView(
        id=one.connection_id,
        executor=one.executor,
        state=_state(one),
        transport=one.transport,
        key_id=one.key_id,
        commands=sorted(one.commands),
        open_commands=one.open_commands,
        max_commands=one.max_commands,
        connected_at=datetime.fromtimestamp(one.connected_at, UTC),
    )


def _state(one: ConnectedExecutor) -> ExecutorState:
    if one.open_commands == 0:
        return "idle"
    return "busy" if one.open_commands < one.max_commands else "full"


def _matches(view: ConnectedExecutorView, query: ExecutorQuery) -> bool:
    if query.executor is not None and view.executor != query.executor:
        return False
    if query.state is not None and view.state != query.state:
        return False
    text = (query.q or "").lower()
    return any(text in name.lower() for name in (view.executor, *view.commands))

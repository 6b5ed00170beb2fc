"""`/plugins`: list the catalogue, show an entry, enable and disable it."""

from typing import Annotated, Final

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response

from app.api.authorisation import requires
from app.api.dependencies import UsesPageLinks, location_of, services_of
from app.api.plugins.schemas import PluginPage, PluginQuery, PluginSummary, PluginView
from app.core.pagination import ItemField, paginate_items
from app.core.schemas import PAGE_HEADERS, location_header, problem_responses
from app.providers.plugins import PluginConfiguration, PluginService
from app.providers.plugins.entry import PLUGIN_NAME
from app.providers.plugins.words import matches
from app.security.principal import Principal

router = APIRouter(tags=["plugins"])
_FIELDS: Final = {"name": ItemField("name")}

ReadsProviders = Annotated[Principal, Depends(requires("providers:read"))]
ChangesPlugins = Annotated[Principal, Depends(requires("providers:write", recent=True))]
PluginPath = Annotated[
    str, Path(alias="name", pattern=PLUGIN_NAME, description="Name of a plugin.", examples=["github"])
]


async def _service(request: Request) -> PluginService:
    return services_of(request).plugins


UsesPlugins = Annotated[PluginService, Depends(_service)]


@router.get(
    "/plugins",
    operation_id="listPlugins",
    summary="List the plugin catalogue",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_plugins(
    principal: ReadsProviders,
    plugins: UsesPlugins,
    links: UsesPageLinks,
    query: Annotated[PluginQuery, Query()],
) -> PluginPage:
    """List the ready providers that this gateway knows, and which of them are enabled."""
    states = [
        PluginSummary.of(one)
        for one in await plugins.states(principal=principal)
        if (query.q is None or matches(one.entry, query.q))
        and (query.state is None or query.state == ("off" if one.enabled is None else "enabled"))
    ]
    page = paginate_items(states, fields=_FIELDS, item_id="key", page=query.page())
    links.set(page.next_cursor)
    return PluginPage.of(page, page.rows)


@router.get(
    "/plugins/{name}",
    operation_id="getPlugin",
    summary="Get a plugin",
    responses=problem_responses(404),
)
async def get_plugin(
    name: PluginPath,
    principal: ReadsProviders,
    plugins: UsesPlugins,
) -> PluginView:
    """Get a plugin: its tools, the settings and credentials that it takes and where to get them, and what is
    enabled of it.
    """
    return PluginView.of(await plugins.get(name, principal=principal))


@router.put(
    "/plugins/{name}",
    operation_id="enablePlugin",
    summary="Enable or change a plugin",
    response_model=PluginView,
    responses={
        200: {"description": "It was enabled before."},
        201: {
            "model": PluginView,
            "description": "Enabled",
            "headers": location_header("Path of the plugin."),
        },
        **problem_responses(400, 404, 409, 413, 415, 502, 504),
    },
)
async def enable_plugin(
    request: Request,
    name: PluginPath,
    principal: ChangesPlugins,
    plugins: UsesPlugins,
    *,
    body: Annotated[PluginConfiguration, Body()],
) -> Response:
    """Register the plugin's provider, store its credentials sealed, and create the toolset of its name: all
    or nothing. An enabled plugin gets another configuration, or the newest version of its entry; what the
    body leaves out stays as it is. Credentials need `credentials:write`; 403 for a key with restrictions; 409
    where there is a provider or a toolset of its name that is not the plugin's.
    """
    state, is_new = await plugins.enable(name, body, principal=principal)
    headers = {"Location": location_of(request, "plugins", name)} if is_new else {}
    content = PluginView.of(state).model_dump_json()
    return Response(content, 201 if is_new else 200, headers=headers, media_type="application/json")


@router.delete(
    "/plugins/{name}",
    operation_id="disablePlugin",
    summary="Disable a plugin",
    status_code=204,
    responses=problem_responses(404),
)
async def disable_plugin(name: PluginPath, principal: ChangesPlugins, plugins: UsesPlugins) -> None:
    """Delete the provider of the plugin with its credentials, and its toolset. Needs `credentials:write`
    where credentials are stored; 403 for a key with restrictions.
    """
    await plugins.disable(name, principal=principal)

"""`POST /providers/{name}/check`, and `GET /provider-health`."""

from typing import Annotated

from fastapi import APIRouter, Query

from app.api.dependencies import UsesPageLinks
from app.api.providers.dependencies import UsesChecks, UsesHealth
from app.api.providers.parameters import ProviderPath, ReadsProviders, WritesProviders
from app.api.providers.schemas_health import (
    CheckRequest,
    ProviderCheck,
    ProviderHealth,
    ProviderHealthPage,
    ProviderHealthQuery,
)
from app.core.schemas import PAGE_HEADERS, problem_responses

router = APIRouter(tags=["providers"])


@router.post(
    "/providers/{name}/check",
    operation_id="checkProvider",
    summary="Check a provider",
    responses=problem_responses(400, 404, 413, 415, 429),
)
async def check_provider(
    name: ProviderPath, principal: WritesProviders, checks: UsesChecks, body: CheckRequest | None = None
) -> ProviderCheck:
    """Check whether each origin can be reached, how long its certificate is valid, and whether the stored
    credentials are usable; of those of kind oauth2, whether the token endpoint issues a token.

    No tool is called unless `probe` or `tool` is given, which needs the scope `tools:call`, too. A check
    takes at most 20 seconds. The result is stored for `GET /provider-health`. A provider can be checked 10
    times in a minute.
    """
    request = body or CheckRequest()
    result = await checks.check(name, probe=request.probe, tool=request.tool, principal=principal)
    return ProviderCheck.model_validate(result, from_attributes=True)


@router.get(
    "/provider-health",
    operation_id="listProviderHealth",
    summary="List the health of providers",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_provider_health(
    principal: ReadsProviders,
    health: UsesHealth,
    links: UsesPageLinks,
    query: Annotated[ProviderHealthQuery, Query()],
) -> ProviderHealthPage:
    """List the health of the providers that this key may see: breakers, calls of the last hour, last check.

    Breakers are those of the worker that serves the request; the metrics have those of all workers.
    """
    page = await health.page(query.page(), filters=query.to_filters(), principal=principal)
    links.set(page.next_cursor)
    views = [ProviderHealth.model_validate(report, from_attributes=True) for report in page.rows]
    return ProviderHealthPage.of(page, views)

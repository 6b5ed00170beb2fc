"""The routes of `/settings`, `/health/details` and `/support-bundle`."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field

from app.api.authorisation import requires
from app.api.dependencies import UsesServices
from app.core.errors import Forbidden
from app.core.schemas import problem_responses
from app.core.telemetry.redaction import mask_shapes
from app.security.principal import Principal
from app.server.support.details import DetailsView, read_details
from app.server.support.effective_settings import SettingList, SettingView, list_effective_settings
from app.server.support.examples import BUNDLE, DETAILS, SETTING, build_response

router = APIRouter(tags=["operation"])

IsAdmin = Annotated[Principal, Depends(requires("admin"))]
_DISPOSITION: Final[dict[str, Any]] = {
    "Content-Disposition": {"schema": {"type": "string"}, "description": "`attachment` with a name."}
}


class SupportBundle(BaseModel):
    """What somebody who helps with the gateway needs to know: no secret, no name of a key or tool."""

    made_at: datetime
    settings: list[SettingView]
    details: DetailsView
    metrics: str = Field(description="The metrics of all workers in Prometheus's text format.")


@router.get(
    "/settings",
    operation_id="getSettings",
    summary="Get the effective settings",
    responses=problem_responses() | build_response({"items": [SETTING]}),
)
async def get_settings(principal: IsAdmin, services: UsesServices) -> SettingList:
    """Return all settings as they are in effect. Of a secret, only whether it is set; of a URL, neither user
    information nor query. 403 for a key with restrictions.
    """
    _require_unrestricted(principal)
    return SettingList(items=list_effective_settings(services.settings, services.masker))


@router.get(
    "/health/details",
    operation_id="getHealthDetails",
    summary="Get the state of the gateway in detail",
    responses=problem_responses() | build_response(DETAILS),
)
async def get_health_details(principal: IsAdmin, services: UsesServices) -> DetailsView:
    """Return the build, the state of PostgreSQL and Redis, the ids of the key ring, and what waits in the
    worker that responds. 403 for a key with restrictions.
    """
    _require_unrestricted(principal)
    return await read_details(services)


@router.get(
    "/support-bundle",
    operation_id="getSupportBundle",
    summary="Get a support bundle",
    responses=problem_responses() | build_response(BUNDLE, headers=_DISPOSITION),
)
async def get_support_bundle(principal: IsAdmin, services: UsesServices, response: Response) -> SupportBundle:
    """Return settings, details and metrics as one JSON document, to be given to somebody who helps: without
    secrets. Names of providers are in the metrics. 403 for a key with restrictions.
    """
    _require_unrestricted(principal)
    made_at = datetime.now(UTC)
    metrics, _ = await services.metrics.render(None)
    response.headers["Content-Disposition"] = (
        f'attachment; filename="utcp-gateway-support-{made_at:%Y%m%dT%H%M%SZ}.json"'
    )
    response.headers["Cache-Control"] = "no-store"
    return SupportBundle(
        made_at=made_at,
        settings=list_effective_settings(services.settings, services.masker),
        details=await read_details(services),
        metrics=services.masker.mask(mask_shapes(metrics.decode())),
    )


def _require_unrestricted(principal: Principal) -> None:
    if principal.is_restricted:
        raise Forbidden(
            "Your key is restricted to providers, tags or toolsets, and this is about the whole gateway.",
            hint="Use a key with the scope `admin` and without restrictions.",
        )

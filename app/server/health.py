"""`/health/live`, `/health/ready` and `/metrics`."""

import asyncio
import contextlib
import math
import time
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel
from redis.asyncio import Redis
from sqlalchemy import text

from app.api.authorisation import public_route, requires
from app.api.dependencies import services_of
from app.catalog.tools import visible_providers
from app.core.errors import Overloaded, Unavailable
from app.core.schemas import problem_responses
from app.security.principal import Principal
from app.services import Services
from app.storage.database import Database
from app.storage.redis import REDIS_ERRORS, RedisPoolExhausted

router = APIRouter(tags=["operation"])

DependencyState = Literal["ok", "unavailable"]
_PROBE_SECONDS: Final = 0.5


class Live(BaseModel):
    """The response of a process whose event loop runs."""

    status: Literal["live"] = "live"


class Ready(BaseModel):
    """The state of the gateway. `degraded`: without PostgreSQL, only tools in the caches can be called."""

    status: Literal["ready", "degraded"]
    database: DependencyState
    redis: DependencyState


# Of all requests, for a `Host` that ALLOWED_HOSTS does not have.
_HOST: Final[dict[int | str, dict[str, Any]]] = {400: problem_responses(400)[400]}


@router.get(
    "/health/live",
    operation_id="live",
    summary="Check that the process responds",
    dependencies=[Depends(public_route)],
    responses=_HOST,
)
async def live() -> Live:
    """Return 200 as long as the event loop runs."""
    return Live()


@router.get(
    "/health/ready",
    operation_id="ready",
    summary="Check that the gateway is ready",
    dependencies=[Depends(public_route)],
    responses={503: problem_responses()[503], **_HOST},
)
async def ready(request: Request) -> Ready:
    """Return the state of PostgreSQL and Redis; 503 while the gateway starts or stops."""
    services = services_of(request)
    if not services.readiness.open:
        raise Unavailable("The gateway is starting or stopping.")
    database, redis = await request.state.probes.probe_states()
    return Ready(status="ready" if database == "ok" else "degraded", database=database, redis=redis)


class HealthProbes:
    """Probes PostgreSQL and Redis, at most twice a second: `/health/ready` needs no API key, so that anybody
    may request it at any rate.
    """

    def __init__(self, database: Database, redis: "Redis") -> None:
        self._database = database
        self._redis = redis
        self._probing: asyncio.Task[tuple[DependencyState, DependencyState]] | None = None
        self._probed_at = -math.inf

    async def probe_states(self) -> tuple[DependencyState, DependencyState]:
        """Return the states of PostgreSQL and of Redis, at most half a second old."""
        probing = self._probing
        # Wait for a probe that is in progress; repeat one that is too old.
        if probing is None or (probing.done() and time.monotonic() - self._probed_at > _PROBE_SECONDS):
            probing = self._probing = asyncio.create_task(self._probe(), name="health-probe")
        return await asyncio.shield(probing)

    async def _probe(self) -> tuple[DependencyState, DependencyState]:
        try:
            database, redis = await asyncio.gather(self._probe_database(), self._probe_redis())
            return database, redis
        finally:
            self._probed_at = time.monotonic()

    async def _probe_database(self) -> DependencyState:
        with contextlib.suppress(Overloaded, TimeoutError):
            try:
                async with asyncio.timeout(1), self._database.read_session() as session:
                    await session.execute(text("SELECT 1"))
            except Overloaded:
                raise
            except Unavailable:
                return "unavailable"
            return "ok"
        # The pool of this process may be exhausted while PostgreSQL itself responds.
        return "ok" if await self._database.responds() else "unavailable"

    async def _probe_redis(self) -> DependencyState:
        try:
            await self._redis.ping()
        except RedisPoolExhausted:
            return "ok"
        except REDIS_ERRORS:
            return "unavailable"
        return "ok"


@router.get(
    "/metrics",
    operation_id="metrics",
    summary="Get the metrics in Prometheus format",
    response_class=PlainTextResponse,
    response_description="Prometheus text format",
    # Query parameters are not read: a monitor may add its own.
    responses={status: problem_responses()[status] for status in (401, 403, 503)},
)
async def metrics(
    request: Request, principal: Annotated[Principal, Depends(requires("metrics:read"))]
) -> Response:
    """Return the metrics of all workers in Prometheus's text format.

    For a key that is limited to providers or tags, metrics by provider are those of its providers only.
    """
    services = services_of(request)
    body, media_type = await services.metrics.render(await _list_metric_providers(services, principal))
    return Response(body, media_type=media_type)


async def _list_metric_providers(services: Services, principal: Principal) -> frozenset[str] | None:
    """Return the names of the providers whose metrics the principal may see, None for all.

    Tools are read only for a key that is limited to tags.
    """
    if principal.tags is None:
        return principal.providers
    async with services.database.read_session() as session:
        return await visible_providers(session, principal)


def install(app: FastAPI) -> None:
    """Add the routes of `/health` and `/metrics` to the application."""
    app.include_router(router)

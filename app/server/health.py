"""`/health/live`, `/health/ready` and `/metrics`."""

import asyncio
import contextlib
import math
import time
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from pydantic import BaseModel
from redis.asyncio import Redis
from sqlalchemy import text

from app.access import public_route, requires
from app.catalog.tools import visible_providers
from app.database import Database
from app.dependencies import services_of
from app.errors import Overloaded, Unavailable
from app.redis_client import REDIS_ERRORS, RedisPoolExhausted
from app.schemas import problem_responses
from app.security.principal import Principal
from app.services import Services

router = APIRouter(tags=["operation"])

ServerState = Literal["ok", "away"]
_PROBE_SECONDS: Final = 0.5


class Live(BaseModel):
    """The process responds."""

    status: Literal["live"] = "live"


class Ready(BaseModel):
    """Whether traffic should be sent here. `degraded`: remembered tools still work without PostgreSQL."""

    status: Literal["ready", "degraded"]
    database: ServerState
    redis: ServerState


@router.get("/health/live", operation_id="live", dependencies=[Depends(public_route)])
async def live() -> Live:
    """Responds as long as the event loop runs."""
    return Live()


@router.get(
    "/health/ready",
    operation_id="ready",
    dependencies=[Depends(public_route)],
    responses={503: problem_responses()[503]},
)
async def ready(request: Request) -> Ready:
    """503 while starting and stopping; afterwards the state of both servers."""
    services = services_of(request)
    if not services.readiness.open:
        raise Unavailable("The gateway is starting or stopping.")
    database, redis = await request.state.probes.states()
    return Ready(status="ready" if database == "ok" else "degraded", database=database, redis=redis)


class HealthProbes:
    """Whether PostgreSQL and Redis responded when they were last probed: at most twice a second, however many
    clients send requests, since anybody may.
    """

    def __init__(self, database: Database, redis: "Redis") -> None:
        self._database = database
        self._redis = redis
        self._probing: asyncio.Task[tuple[ServerState, ServerState]] | None = None
        self._probed_at = -math.inf

    async def states(self) -> tuple[ServerState, ServerState]:
        """Return the state of PostgreSQL and of Redis, as it was within the last half second."""
        probing = self._probing
        # One that is under way is waited for; an old one is repeated.
        if probing is None or (probing.done() and time.monotonic() - self._probed_at > _PROBE_SECONDS):
            probing = self._probing = asyncio.create_task(self._probe(), name="health-probe")
        return await asyncio.shield(probing)

    async def _probe(self) -> tuple[ServerState, ServerState]:
        try:
            database, redis = await asyncio.gather(self._probe_database(), self._probe_redis())
            return database, redis
        finally:
            self._probed_at = time.monotonic()

    async def _probe_database(self) -> ServerState:
        with contextlib.suppress(Overloaded, TimeoutError):
            try:
                async with asyncio.timeout(1), self._database.reading() as session:
                    await session.execute(text("SELECT 1"))
            except Overloaded:
                raise
            except Unavailable:
                return "away"
            return "ok"
        # It may be this process that has no connection free.
        return "ok" if await self._database.responds() else "away"

    async def _probe_redis(self) -> ServerState:
        try:
            await self._redis.ping()
        except RedisPoolExhausted:
            return "ok"
        except REDIS_ERRORS:
            return "away"
        return "ok"


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        **problem_responses(),
        200: {
            "description": "Prometheus text format",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
    },
)
async def metrics(
    request: Request, principal: Annotated[Principal, Depends(requires("metrics:read"))]
) -> Response:
    """The metrics of all workers in Prometheus's text format.

    A key that is limited to providers or tags is shown the metrics by provider of its own providers only.
    """
    services = services_of(request)
    body, media_type = await services.metrics.render(await _shown(services, principal))
    return Response(body, media_type=media_type)


async def _shown(services: Services, principal: Principal) -> frozenset[str] | None:
    """The providers whose metrics are shown, None for all. Only a limit to tags takes a look at tools."""
    if principal.tags is None:
        return principal.providers
    async with services.database.reading() as session:
        return await visible_providers(session, principal)


def install(app: FastAPI) -> None:
    """Add the routes of health and metrics."""
    app.include_router(router)

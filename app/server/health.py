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

from app.access import openly, requires
from app.catalog.tools import providers_seen
from app.database import Database
from app.errors import Overloaded, Unavailable
from app.redis_client import AWAY, PoolBusy
from app.schemas import problems
from app.security.principal import Principal
from app.services import Services

router = APIRouter(tags=["operation"])


def install(app: FastAPI) -> None:
    """Add the routes of health and metrics."""
    app.include_router(router)


Part = Literal["ok", "away"]
_PROBE_SECONDS: Final = 0.5


class Live(BaseModel):
    """The process answers."""

    status: Literal["live"] = "live"


class Ready(BaseModel):
    """Whether traffic should be sent here. `degraded`: remembered tools still work without PostgreSQL."""

    status: Literal["ready", "degraded"]
    database: Part
    redis: Part


@router.get("/health/live", operation_id="live", dependencies=[Depends(openly)])
async def live() -> Live:
    """Answers as long as the event loop runs."""
    return Live()


@router.get(
    "/health/ready",
    operation_id="ready",
    dependencies=[Depends(openly)],
    responses={503: problems()[503]},
)
async def ready(request: Request) -> Ready:
    """503 while starting and stopping; afterwards the state of both servers."""
    services: Services = request.state.services
    if not services.readiness.open:
        raise Unavailable("The gateway is starting or stopping.")
    database, redis = await request.state.probes.parts()
    return Ready(status="ready" if database == "ok" else "degraded", database=database, redis=redis)


class Probes:
    """What PostgreSQL and Redis said when they were last asked: at most twice a second, however many clients
    want to know, since anybody may ask.
    """

    def __init__(self, database: Database, redis: "Redis") -> None:
        self._database = database
        self._redis = redis
        self._asking: asyncio.Task[tuple[Part, Part]] | None = None
        self._asked_at = -math.inf

    async def parts(self) -> tuple[Part, Part]:
        """PostgreSQL and Redis, as they were within the last half second."""
        asking = self._asking
        # One that is under way is waited for; what is old is asked again.
        if asking is None or (asking.done() and time.monotonic() - self._asked_at > _PROBE_SECONDS):
            asking = self._asking = asyncio.create_task(self._ask(), name="health-probe")
        return await asyncio.shield(asking)

    async def _ask(self) -> tuple[Part, Part]:
        try:
            database, redis = await asyncio.gather(self._ask_database(), self._ask_redis())
            return database, redis
        finally:
            self._asked_at = time.monotonic()

    async def _ask_database(self) -> Part:
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
        return "ok" if await self._database.answers() else "away"

    async def _ask_redis(self) -> Part:
        try:
            await self._redis.ping()
        except PoolBusy:
            return "ok"
        except AWAY:
            return "away"
        return "ok"


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        **problems(),
        200: {
            "description": "Prometheus text format",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
    },
)
async def metrics(
    request: Request, principal: Annotated[Principal, Depends(requires("metrics:read"))]
) -> Response:
    """The figures of all workers in Prometheus's text format.

    A key that is limited to providers or tags is shown the figures by provider of its own providers only.
    """
    services: Services = request.state.services
    body, media_type = await services.metrics.render(await _shown(services, principal))
    return Response(body, media_type=media_type)


async def _shown(services: Services, principal: Principal) -> frozenset[str] | None:
    """The providers of which figures are shown, None for all. Only a limit to tags takes a look at tools."""
    if principal.tags is None:
        return principal.providers
    async with services.database.reading() as session:
        return await providers_seen(session, principal)

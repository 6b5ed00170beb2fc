"""`/health/live`, `/health/ready` and `/metrics`."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel
from redis.exceptions import RedisError
from sqlalchemy import text

from app.access import openly, requires
from app.catalog.tools import providers_seen
from app.errors import Unavailable
from app.schemas import problems
from app.security.principal import Principal

router = APIRouter(tags=["operation"])

Part = Literal["ok", "away"]


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
    if not request.state.readiness.open:
        raise Unavailable("The gateway is starting or stopping.")
    database, redis = await asyncio.gather(_database(request), _redis(request))
    return Ready(status="ready" if database == "ok" else "degraded", database=database, redis=redis)


async def _database(request: Request) -> Part:
    try:
        async with asyncio.timeout(1), request.state.database.reading() as session:
            await session.execute(text("SELECT 1"))
    except (Unavailable, TimeoutError):
        return "away"
    return "ok"


async def _redis(request: Request) -> Part:
    try:
        await request.state.redis.ping()
    except (RedisError, OSError, TimeoutError):
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
    body, media_type = await request.state.metrics.render(await _shown(request, principal))
    return Response(body, media_type=media_type)


async def _shown(request: Request, principal: Principal) -> frozenset[str] | None:
    """The providers of which figures are shown, None for all. Only a limit to tags takes a look at tools."""
    if principal.tags is None:
        return principal.providers
    async with request.state.database.reading() as session:
        return await providers_seen(session, principal)

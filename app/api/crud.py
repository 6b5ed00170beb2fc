"""What resources of REST have in common: the entity tag, and the responses that create or replace one."""

from typing import Any, Final

from fastapi import Response
from pydantic import BaseModel

from app.api.idempotency import IDEMPOTENCY_HEADERS
from app.core.schemas import location_header

ETAG: Final[dict[str, Any]] = {
    "ETag": {"schema": {"type": "string"}, "description": "The version in quotes."}
}
"""The header of the entity tag of a resource, for the `responses=` of a route."""


def describe_created(model: type[BaseModel], path: str, *, idempotent: bool = False) -> dict[str, Any]:
    """Return the 201 of `responses=`, where `path` describes the path of the resource; `idempotent` for a
    route that takes an Idempotency-Key.
    """
    headers = {**location_header(path), **ETAG, **(IDEMPOTENCY_HEADERS if idempotent else {})}
    return {"model": model, "description": "Created", "headers": headers}


def respond_stored(
    view: BaseModel, *, etag: str, location: str | None = None, no_store: bool = False
) -> Response:
    """Return 201 with the path of a resource that is new, without a path 200 for one that was replaced; with
    `no_store`, it may not be cached.
    """
    headers = {"Cache-Control": "no-store"} if no_store else {}
    headers["ETag"] = etag
    if location is not None:
        headers["Location"] = location
    status = 200 if location is None else 201
    return Response(view.model_dump_json(), status, headers=headers, media_type="application/json")

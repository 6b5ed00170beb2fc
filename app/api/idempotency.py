"""Requests of the control plane with an Idempotency-Key: processed once, and the response stored, sealed.

The store is that of calls (`calls.idempotency_store`); an operation has keys of its own there. A request that
was rejected, or failed with nothing stored, releases its key. Where it is not known whether something was
stored (the database was lost, the process ended), the key remains in use: a retry gets `idempotency-unknown`.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, Header, Request
from sqlalchemy.exc import DBAPIError
from starlette.responses import Response

from app.api.dependencies import services_of
from app.calls.idempotency.store import IdempotencyLease, IdempotencyStore, IdempotentRequest
from app.calls.options import read_idempotency_key
from app.core import exact_json
from app.core.errors import GatewayError, IdempotencyNotStored, Overloaded, Unavailable
from app.core.uuid7 import uuid7
from app.security.principal import Principal
from app.storage.database import is_unavailable

_LARGE_BYTES: Final = 1 << 20
_HEADER = "Idempotency-Key"

IDEMPOTENCY_HEADERS: Final[dict[str, Any]] = {
    "Idempotency-Replayed": {
        "schema": {"type": "string", "enum": ["true"]},
        "description": "The response is that of an earlier request with this Idempotency-Key.",
    }
}
"""The header of a replayed response, for the `responses=` of a route."""


@dataclass(frozen=True, slots=True)
class IdempotentOperation:
    """An operation that takes an Idempotency-Key, by the id of the operation.

    A request may take `seconds`; a retry gets 409 for so long after the process that served it has ended. The
    response is stored for `retention_seconds`, None: IDEMPOTENCY_RETENTION_SECONDS.
    """

    name: str
    seconds: float
    retention_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class IdempotentResponder:
    """Responds to requests with the Idempotency-Key `key`, or, where it is None, without one.

    A response of more than `max_bytes` is not stored.
    """

    store: IdempotencyStore
    key: str | None
    max_bytes: int

    async def respond(
        self,
        operation: IdempotentOperation,
        work: Callable[[], Awaitable[Response]],
        *,
        principal: Principal,
        content: bytes,
    ) -> Response:
        """Return the response of `work()`, or, where this key was used before, the stored one.

        `content` identifies what is requested: with other content, the key is rejected. Raise what `work`
        raises, the errors of `IdempotencyStore.begin`, and IdempotencyNotStored.
        """
        if self.key is None:
            return await work()
        request = IdempotentRequest(
            tenant=principal.tenant_id,
            key_id=principal.key_id,
            text=self.key,
            content=content,
            call_id=uuid7(),
            seconds=operation.seconds,
            safe=False,
            operation=operation.name,
            retention_seconds=operation.retention_seconds,
        )
        begun = await self.store.begin(request)
        if not isinstance(begun, IdempotencyLease):
            return _replayed(begun.outcome)
        # In a task of its own: it goes on after the client has disconnected.
        task = asyncio.create_task(self._process(begun, work), name=f"idempotent-{operation.name}")
        self.store.watch(task)
        return await asyncio.shield(task)

    async def _process(self, lease: IdempotencyLease, work: Callable[[], Awaitable[Response]]) -> Response:
        try:
            response = await work()
        except (GatewayError, DBAPIError) as error:
            if not _may_be_stored(error):
                await self.store.release(lease)
            raise
        await self.store.store(lease, _serialise(response, max_bytes=self.max_bytes))
        return response


async def request_content(request: Request, *parts: str) -> bytes:
    """Return what identifies a request: the digest of its body, with `parts`; the body can be read again.

    The boundary of a multipart body is left out: clients choose another one for each attempt.
    """
    body = await request.body()
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    media_type = media_type.strip().lower()
    if media_type.startswith("multipart/"):
        boundary = parameters.partition("boundary=")[2].partition(";")[0].strip().strip('"').encode()
        body = body.replace(boundary, b"") if boundary else body
    hashed = hashlib.sha256
    digest = await asyncio.to_thread(hashed, body) if len(body) > _LARGE_BYTES else hashed(body)
    return exact_json.dumps([media_type, *parts, digest.hexdigest()])


async def _responder(
    request: Request,
    _: Annotated[
        str | None,
        Header(
            alias=_HEADER,
            # Only documented here: `read_idempotency_key` checks it, and also accepts a key in quotes.
            json_schema_extra={"pattern": r"^[!#-~][!-~]*$", "minLength": 1, "maxLength": 255},
            description="A new value for each request, such as a UUID. A request that is sent again with it "
            "gets the first response again, with `Idempotency-Replayed: true`; 409 while that is processed, "
            "422 for another body.",
            examples=["7b0d3f0e-6f39-4f8e-9d3a-0c8c8d0c9a11"],
        ),
    ] = None,
) -> IdempotentResponder:
    services = services_of(request)
    values = request.headers.getlist(_HEADER)
    key = read_idempotency_key(", ".join(values).encode("latin-1")) if values else None
    return IdempotentResponder(
        services.calls.idempotency, key, services.settings.idempotency_max_response_bytes
    )


UsesIdempotency = Annotated[IdempotentResponder, Depends(_responder)]


def _may_be_stored(error: GatewayError | DBAPIError) -> bool:
    """Return whether the request may have been processed although it failed: the database was lost."""
    if isinstance(error, DBAPIError):
        return is_unavailable(error)
    return isinstance(error, Unavailable) and not isinstance(error, Overloaded)


def _serialise(response: Response, *, max_bytes: int) -> bytes:
    body = bytes(response.body)
    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in response.raw_headers
        if name != b"content-length"
    ]
    if len(body) > max_bytes:
        return exact_json.dumps({"status": response.status_code}) + b"\n"
    return exact_json.dumps({"status": response.status_code, "headers": headers}) + b"\n" + body


def _replayed(outcome: bytes) -> Response:
    """Return a stored response; raise IdempotencyNotStored where it was too large."""
    head, _, body = outcome.partition(b"\n")
    stored = orjson.loads(head)
    if "headers" not in stored:
        raise IdempotencyNotStored(
            "The request with this Idempotency-Key was processed, but its response was too large to be "
            "stored. It is not processed again: read what it has created.",
            extra={"stored_status": stored["status"]},
        )
    return Response(
        body, stored["status"], headers={**dict(stored["headers"]), "Idempotency-Replayed": "true"}
    )

"""Fetching what an upstream publishes about itself, through the adapter and with sealed credentials."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.errors import UpstreamError, UpstreamRejected, UpstreamUnauthorized
from app.models import new_id
from app.outbound.credentials import CredentialResolver, Need
from app.outbound.egress import EgressSettings
from app.outbound.limits import Limits
from app.protocols.base import Adapter, Call, Discovered
from app.security.credentials import SealedCredential

_ACCEPT = ("Accept", "application/json, application/yaml;q=0.9, text/yaml;q=0.8, */*;q=0.5")


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Asks upstreams for their documents. `largest` is the most bytes that one may have."""

    adapters: Mapping[str, Adapter[Any]]
    resolver: CredentialResolver
    largest: int

    async def fetch(
        self,
        template: Mapping[str, Any],
        *,
        credentials: Mapping[str, SealedCredential],
        limits: Limits,
        egress: EgressSettings | None,
    ) -> Discovered:
        """The document at an http template's URL, whose variables are written out already.

        Raises BlockedAddress, UpstreamTimeout and UpstreamError (always 502: the answer of somebody else's
        server is no answer about the request that was sent here).
        """
        adapter = self.adapters["http"]
        target = adapter.prepare(template)
        needs = (tuple(Need(slot) for slot in credentials),) if credentials else ()
        # The time for getting a token is the fetch's own.
        deadline = asyncio.get_running_loop().time() + limits.total
        wired = await self.resolver.resolve(
            needs, credentials, origin=adapter.origin(target), egress=egress, deadline=deadline
        )
        call = Call(
            target=target,
            arguments={},
            credentials=wired,
            deadline=deadline,
            limits=replace(limits, response_bytes=self.largest),
            call_id=str(new_id()),
            headers=(_ACCEPT,),
            egress=egress,
        )
        try:
            return await adapter.discover(call)
        except (UpstreamRejected, UpstreamUnauthorized) as error:
            raise _not_served(error) from None


def _not_served(error: UpstreamError) -> UpstreamError:
    status = error.answer.status if error.answer is not None else 0
    refusal = UpstreamError(f"The source could not be read: {error.detail}", answer=error.answer)
    if status == 401:
        refusal.detail += " Give `auth` for the discovery."
    return refusal

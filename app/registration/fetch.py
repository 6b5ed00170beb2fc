"""Fetching what an upstream publishes about itself, through its adapter and with sealed credentials."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from app.errors import FieldError, InvalidInput, UpstreamError, UpstreamRejected, UpstreamUnauthorized
from app.models import new_id
from app.outbound.credentials import CredentialResolver, SlotRequirement
from app.outbound.egress import EgressSettings
from app.outbound.limits import Limits
from app.protocols.base import Adapter, Call, Discovered
from app.protocols.call_templates import protocol_of
from app.protocols.registry import Adapters
from app.security.credentials import SealedCredential
from app.security.response_masking import MIN_NEEDLE, ResponseMasker, mask_error

_TEMPLATES = frozenset({"tool_call_template", "tool_provider"})


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches what upstreams publish, up to `max_bytes` of each."""

    adapters: Adapters
    resolver: CredentialResolver
    max_bytes: int

    async def fetch(
        self,
        template: Mapping[str, Any],
        *,
        credentials: Mapping[str, SealedCredential],
        limits: Limits,
        egress: EgressSettings | None,
        scope: bytes,
        reuse: bool = True,
    ) -> Discovered:
        """Return what a template's upstream publishes; its variables are written out already.

        Raises BlockedAddress, UpstreamTimeout and UpstreamError (always 502: the status of the upstream's
        response says nothing about the client's request).
        """
        await self.adapters.ready(protocol_of(template))
        adapter = self.adapter(template)
        target = adapter.prepare(template)
        needs = (tuple(SlotRequirement(slot) for slot in credentials),) if credentials else ()
        # Requesting a token counts against the time limit of the fetch.
        deadline = asyncio.get_running_loop().time() + limits.total
        wired = await self.resolver.resolve(
            needs, credentials, origin=adapter.origin(target), egress=egress, deadline=deadline
        )
        call = Call(
            target=target,
            arguments={},
            credentials=wired,
            deadline=deadline,
            limits=replace(limits, response_bytes=self.max_bytes),
            call_id=str(new_id()),
            egress=egress,
            scope=scope,
            reuse=reuse,
        )
        try:
            found = await adapter.discover(call)
        except (UpstreamRejected, UpstreamUnauthorized) as error:
            raise _source_error(_masked_error(error, wired.masker)) from None
        except UpstreamError as error:
            raise _masked_error(error, wired.masker) from None
        # A short password may be the name of a tool or a value of an enumeration.
        secrets = wired.masker.values if wired.masker is not None else ()
        masker = ResponseMasker.for_values(value for value in secrets if len(value) >= MIN_NEEDLE)
        if masker is None or not masker.contains_secret(found.raw):
            return found
        return replace(found, raw=await asyncio.to_thread(_masked, found.raw, masker))

    def adapter(self, template: Mapping[str, Any]) -> Adapter[Any]:
        """Return the adapter of the template's protocol; raise InvalidInput where there is none."""
        protocol = protocol_of(template)
        if protocol not in self.adapters:
            sentence = f"The protocol {protocol} is not served by this gateway."
            fault = FieldError("/call_template_type", sentence, expected=sorted(self.adapters))
            raise InvalidInput(sentence, errors=[fault])
        return self.adapters[protocol]

    def prepare(self, template: Mapping[str, Any]) -> str:
        """Return the origin of a template whose variables are written out.

        Raises InvalidInput for one that can never be called.
        """
        adapter = self.adapter(template)
        return adapter.origin(adapter.prepare(template))


def _masked_error(error: UpstreamError, masker: ResponseMasker | None) -> UpstreamError:
    if masker is not None:
        mask_error(error, masker)
    return error


def _masked(raw: bytes, masker: ResponseMasker) -> bytes:
    """Return a document with the secrets masked with which it was fetched, wherever they would be shown.

    The call templates of a manual stay as they are: secrets in them are sealed before they are stored.
    """
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return masker.mask(raw)
    tools = document.get("tools") if isinstance(document, dict) else None
    if not isinstance(tools, list):
        return masker.mask_json(raw)
    shown = {**document, "tools": [_without_templates(tool) for tool in tools]}
    masked = masker.mask_value(shown)
    return orjson.dumps(
        {
            **masked,
            "tools": [_with_templates(new, old) for new, old in zip(masked["tools"], tools, strict=True)],
        }
    )


def _without_templates(tool: Any) -> Any:
    return {key: tool[key] for key in tool if key not in _TEMPLATES} if isinstance(tool, dict) else tool


def _with_templates(masked: Any, tool: Any) -> Any:
    if not isinstance(tool, dict):
        return masked
    return {**masked, **{key: tool[key] for key in tool if key in _TEMPLATES}}


def _source_error(error: UpstreamError) -> UpstreamError:
    status = error.response.status if error.response is not None else 0
    failure = UpstreamError(f"The source could not be read: {error.detail}", response=error.response)
    if status == 401:
        failure.detail += " Give `auth` for the discovery."
    return failure

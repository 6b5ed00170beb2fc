"""Fetches the document or manual of an upstream, through its adapter and with sealed credentials."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from app.calls.retries import is_retryable
from app.core import exact_json
from app.core.errors import (
    BlockedAddress,
    FieldError,
    InvalidArguments,
    InvalidInput,
    UpstreamError,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
)
from app.core.text import pointer
from app.core.uuid7 import uuid7
from app.outbound.credentials import CredentialResolver, SlotRequirement
from app.outbound.egress import EgressSettings
from app.outbound.limits import Limits
from app.outbound.network import Network
from app.protocols.base import Adapter, Call, Discovered, Redirected
from app.protocols.call_templates import protocol_of
from app.protocols.registry import Adapters, describe_missing_package
from app.providers.registration.blocked_destinations import explained
from app.providers.registration.content_codings import document_text
from app.providers.registration.redirects import (
    build_template_at,
    find_next_address,
    restrict_egress,
    without_query,
)
from app.security.response_masking import MIN_NEEDLE, ResponseMasker, mask_error
from app.security.sealed_credentials import SealedCredential

SINGLE_TOOLS: Final = (
    "If the server publishes no description of its tools, register each of them with POST /tools."
)
"""What to do about a server without discovery."""
_TOOL: Final = "Register a tool with this call template with POST /tools, or name the URL of a document."
_TEMPLATES = frozenset({"tool_call_template", "tool_provider"})


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches documents and manuals of upstreams, each of at most `max_bytes`."""

    adapters: Adapters
    resolver: CredentialResolver
    network: Network
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
        url: str | None = None,
    ) -> Discovered:
        """Return the document or manual of a template's upstream. The template has no variables any more.

        `url` is the address of another file than the template's own. Redirects are followed as
        `app.providers.registration.redirects` says.

        Raises InvalidInput for a template that needs arguments, BlockedAddress (with the address and the
        setting that allows it), UpstreamTimeout and UpstreamError (always 502: the status of the upstream's
        response says nothing about the client's request).
        """
        await self.adapters.load(protocol_of(template))
        adapter = self.adapter(template)
        home = adapter.origin(adapter.prepare(template))
        needs = (tuple(SlotRequirement(slot) for slot in credentials),) if credentials else ()
        # Requesting a token counts against the time limit of the fetch.
        deadline = asyncio.get_running_loop().time() + limits.total
        wired = await self.resolver.resolve(needs, credentials, origin=home, egress=egress, deadline=deadline)

        async def discover(address: str | None) -> Discovered:
            requested = template if address is None else build_template_at(template, address, home=home)
            target = adapter.prepare(requested)
            is_home = adapter.origin(target) == home
            if credentials and not is_home:
                raise UpstreamError(f"The credential of the source is sent to its own origin only: {home}.")
            call = Call(
                target=target,
                arguments={},
                credentials=wired,
                deadline=deadline,
                limits=replace(limits, response_bytes=self.max_bytes),
                call_id=str(uuid7()),
                egress=egress if is_home else restrict_egress(egress),
                scope=scope,
                reuse=reuse,
            )
            try:
                return await adapter.discover(call)
            except BlockedAddress as error:
                raise await explained(
                    error, adapter.origin(target), network=self.network, egress=call.egress
                ) from None

        try:
            discovered = await _follow_redirects(discover, url, home=home, is_bound=bool(credentials))
        except InvalidArguments as error:
            raise _describe_needed_arguments(template, error) from None
        except (UpstreamRejected, UpstreamUnauthorized) as error:
            raise _build_source_error(_mask_error(error, wired.masker)) from None
        except UpstreamError as error:
            error.retryable = is_retryable(error, may_repeat=True)
            if isinstance(error, UpstreamMalformed | UpstreamTimeout):
                error.hint = f"{error.hint} {SINGLE_TOOLS}"
            raise _mask_error(error, wired.masker) from None
        if discovered.is_redirected and wired.masker is not None:
            discovered = replace(discovered, url=wired.masker.mask_text(discovered.url))
        discovered = replace(discovered, raw=await document_text(discovered.raw, max_bytes=self.max_bytes))
        # A short password may be the name of a tool or a value of an enumeration.
        secrets = wired.masker.values if wired.masker is not None else ()
        masker = ResponseMasker.for_values(value for value in secrets if len(value) >= MIN_NEEDLE)
        if masker is None or not masker.contains_secret(discovered.raw):
            return discovered
        return replace(discovered, raw=await asyncio.to_thread(_mask_document, discovered.raw, masker))

    def adapter(self, template: Mapping[str, Any]) -> Adapter[Any]:
        """Return the adapter of the template's protocol; raise InvalidInput where there is none."""
        protocol = protocol_of(template)
        if protocol not in self.adapters:
            missing_package = describe_missing_package(protocol)
            sentence = missing_package or f"The protocol {protocol} is not served by this gateway."
            expected = None if missing_package else sorted(self.adapters)
            problem = FieldError("/call_template_type", sentence, expected=expected)
            raise InvalidInput(sentence, errors=[problem])
        return self.adapters[protocol]

    def prepare(self, template: Mapping[str, Any]) -> str:
        """Return the origin of a template without variables.

        Raises InvalidInput for one that can never be called.
        """
        adapter = self.adapter(template)
        return adapter.origin(adapter.prepare(template))


async def _follow_redirects(
    discover: Callable[[str | None], Awaitable[Discovered]], address: str | None, *, home: str, is_bound: bool
) -> Discovered:
    """Return what stands at an address, None for that of the source, or where its redirects lead to.

    Raises what `find_next_address` and discovering raise.
    """
    for count in itertools.count(1):
        try:
            discovered = await discover(address)
        except Redirected as redirect:
            address = find_next_address(redirect, home=home, is_bound=is_bound, count=count)
        except BlockedAddress as error:
            if count > 1:
                error.detail = f"The source redirects to {address}. {error.detail}"
            raise
        else:
            break
    return (
        discovered if count == 1 else replace(discovered, url=without_query(str(address)), is_redirected=True)
    )


def _mask_error(error: UpstreamError, masker: ResponseMasker | None) -> UpstreamError:
    if masker is not None:
        mask_error(error, masker)
    return error


def _mask_document(raw: bytes, masker: ResponseMasker) -> bytes:
    """Return a document with the secrets masked with which it was fetched.

    The call templates of a manual are not masked: secrets in them are sealed before they are stored.
    """
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return masker.mask(raw)
    tools = document.get("tools") if isinstance(document, dict) else None
    if not isinstance(tools, list):
        return masker.mask_json(raw)
    without_templates = {**document, "tools": [_without_templates(tool) for tool in tools]}
    masked = masker.mask_value(without_templates)
    return exact_json.dumps(
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


def _describe_needed_arguments(template: Mapping[str, Any], error: InvalidArguments) -> InvalidInput:
    """Return the error for a source that cannot be fetched without arguments.

    Pointers are into the template.
    """
    names = [problem.pointer.removeprefix("/") for problem in error.errors]
    problems = [
        FieldError(
            pointer("", member), f"It needs the argument {name!r}. Only the template of a tool has arguments."
        )
        for name in names
        for member, value in template.items()
        if name in str(value) and member not in ("call_template_type", "header_fields")
    ]
    sentence = "The source needs arguments, so that it is the template of a tool and not of a provider."
    return InvalidInput(sentence, errors=problems or [FieldError("", sentence)], hint=_TOOL)


def _build_source_error(error: UpstreamError) -> UpstreamError:
    status = error.response.status if error.response is not None else 0
    failure = UpstreamError(f"The source could not be read: {error.detail}", response=error.response)
    failure.hint = (
        "Check the URL of the source, e.g. by opening it in a browser: it must be the document itself. "
        f"{SINGLE_TOOLS}"
    )
    # Reading a source changes nothing.
    failure.retryable = is_retryable(error, may_repeat=True)
    if status == 401:
        failure.detail += " Give `auth` for the discovery."
    return failure

"""HTTP: arguments become a request, credentials are added last, and the response is passed on."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

from app.core import exact_json
from app.core.text import split_pointer
from app.outbound.framing import parse_events
from app.outbound.response import OutboundResponse
from app.protocols.base import (
    AdapterContext,
    Call,
    DescribesResponses,
    Discovered,
    FollowsLinks,
    GivesEvidence,
    Result,
)
from app.protocols.requests.manifest_request import ManifestPlan, manifest_plan
from app.protocols.requests.plan_compiler import ArgumentPlan, PreparedRequest, compile_plan
from app.protocols.requests.templates import ResponseSpec
from app.protocols.shared.http_based import HttpBasedAdapter, join_length_prefixed
from app.protocols.shared.redirects import is_declared, is_same_origin, resolve_location
from app.protocols.shared.sealed_fields import field_values

_SMALL_BODY = 64 * 1024
# Headers of a response without body that are not described: those of the connection (RFC 9110 sections 7.6.1,
# 11.7), cookies, and what belongs to the exchange of credentials.
_UNDESCRIBED_HEADERS = frozenset(
    {
        "authentication-info",
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-connection",
        "set-cookie",
        "set-cookie2",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_ACCEPT = ("Accept", "application/json, application/yaml;q=0.9, text/yaml;q=0.8, */*;q=0.5")


RequestPlan: TypeAlias = ArgumentPlan | ManifestPlan


class HttpAdapter(HttpBasedAdapter, DescribesResponses, FollowsLinks, GivesEvidence):
    """The adapter for calls over HTTP(S)."""

    name: ClassVar[str] = "http"
    keeps_digits: ClassVar[bool] = True

    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._pass_undecodable = context.settings.undecodable_responses == "pass"

    def prepare(self, template: Mapping[str, Any]) -> RequestPlan:
        """Compile a template of `call_template_type` http; raise InvalidInput."""
        return manifest_plan(template) or compile_plan(template)

    def origin(self, target: RequestPlan) -> str:
        """Return the scheme, host and port of the template's URL, which no argument can change."""
        return target.origin

    def response_spec(self, target: RequestPlan) -> ResponseSpec | None:
        """Return what an OpenAPI document says of the response beyond the output schema of the tool."""
        return target.response

    def is_safe(self, target: RequestPlan) -> bool:
        """Return whether the method is a safe one, such as GET, HEAD, OPTIONS or QUERY."""
        return target.safe

    def is_idempotent(self, target: RequestPlan) -> bool:
        """Return whether the method is a safe one, PUT or DELETE."""
        return target.safe or target.method in ("PUT", "DELETE")

    def request_identity(self, call: Call[RequestPlan]) -> bytes | None:
        """Return the method, URL, headers and body of a GET, HEAD or QUERY; None for other methods.

        None as well for conditional and range requests (RFC 9110 sections 13 and 14).
        """
        prepared = _prepared(call)
        if prepared.method not in ("GET", "HEAD", "QUERY"):
            return None
        pieces = [prepared.method, prepared.url]
        for name, value in prepared.headers:
            lowered = name.lower()
            if lowered in ("range", "cache-control", "pragma") or lowered.startswith("if-"):
                return None
            pieces += (lowered, value)
        return join_length_prefixed([*(piece.encode() for piece in pieces), prepared.body or b""])

    def method(self, target: RequestPlan) -> str:
        """Return the HTTP method."""
        return target.method

    async def call(self, call: Call[RequestPlan]) -> Result:
        """Send the request and return the response; its body is read at once up to 64 KiB, else streamed.

        A response to HEAD, and one to OPTIONS without a body, is `{"status", "headers"}` as JSON.

        Raise UpstreamUnauthorized for 401, UpstreamRejected for other statuses than 2xx, 304 and the
        redirects that the operation declares, and what the engine raises.
        """
        prepared = await asyncio.to_thread(_prepared, call) if call.has_large_arguments else _prepared(call)
        if call.target.accept is not None:
            _add_accept(prepared, call.target.accept, call)
        return await self._received(prepared, call)

    def resolve_link(self, call: Call[RequestPlan], link: str, base: str | None) -> str | None:
        """Return the URL of a link, None where it is not at the origin of the tool."""
        if not link.isprintable():
            return None
        url = resolve_location(link, _prepared(call).url if base is None else base)
        return (
            str(url.with_fragment(None))
            if url is not None and is_same_origin(url, call.target.origin)
            else None
        )

    async def follow(self, call: Call[RequestPlan], url: str) -> Result:
        """Send a GET of a URL at the tool's origin with its headers and credentials; return the response.

        Raise what `call` raises.
        """
        prepared = _prepared(call)
        headers = [pair for pair in prepared.headers if not pair[0].lower().startswith("content-")]
        request = prepared._replace(method="GET", url=url, headers=headers, body=None)
        if call.target.accept is not None:
            _add_accept(request, call.target.accept, call)
        return await self._received(request, call)

    def is_result(self, call: Call[RequestPlan], status: int) -> bool:
        """Return whether the operation declares a redirect of this status as its result."""
        return _is_success(call.target, status)

    async def _received(self, prepared: PreparedRequest, call: Call[RequestPlan]) -> Result:
        """Send a request, and return its response."""
        method = prepared.method
        response = await self.send(prepared, call)
        status = response.status
        if not _is_success(call.target, status):
            raise await self.rejection(response, call)
        limit = call.limits.response_bytes
        if method == "HEAD" and status != 304:
            response.close()
            return self._described(response)
        result = Result(
            status=status,
            headers=self.response_headers(response),
            media_type=response.headers.get("Content-Type", ""),
            body=None,
            upstream_headers=response.headers,
        )
        if response.redirection is not None:
            _note_redirection(result, response)
        if response.unsupported_coding and self._pass_undecodable and call.stream_deadline is None:
            result.headers.append(("Content-Encoding", response.unsupported_coding))
            response.keep_content_coding()
        if response.is_complete or ((length := response.length) is not None and length <= _SMALL_BODY):
            result.body = await response.read(limit)
            if not result.body and method == "OPTIONS" and status != 304:
                return self._described(response)
        else:
            response.check_headers(limit)
            result.stream = response.iterate(limit)
            result.close_with(response.close)
        if call.stream_deadline is not None:
            response.set_deadline(call.stream_deadline)
            result.events = parse_events(
                result.iterate(), result.media_type, max_bytes=call.limits.event_bytes
            )
        return result

    def _described(self, response: OutboundResponse) -> Result:
        """Return the status and the headers of a response without body, as JSON.

        Names are in lower case, each once; known secrets are masked.
        """
        fields = [(name.lower(), value) for name, value in response.headers.items()]
        of_connection = {
            option.strip().lower()
            for name, value in fields
            if name == "connection"
            for option in value.split(",")
        }
        described: dict[str, str] = {}
        for name, value in fields:
            if name in _UNDESCRIBED_HEADERS or name in of_connection or not value.isprintable():
                continue
            masked = self._masker.mask(value)
            described[name] = f"{described[name]}, {masked}" if name in described else masked
        return Result(
            status=response.status,
            headers=self.response_headers(response),
            media_type="application/json",
            body=exact_json.dumps({"status": response.status, "headers": described}),
            upstream_headers=response.headers,
        )

    async def discover(self, call: Call[RequestPlan]) -> Discovered:
        """Return the document at the template's URL, requested with its method, auth and headers."""
        document_call = replace(call, headers=(_ACCEPT,))
        return await self.fetch_document(_prepared(call), document_call)

    def describe(self, call: Call[RequestPlan]) -> dict[str, Any]:
        """Return the request as JSON, secrets masked as `***`."""
        prepared = _prepared(call, masked=True)
        if call.target.accept is not None:
            _add_accept(prepared, call.target.accept, call)
        return self.describe_request(prepared, call)

    def evidence(self, call: Call[RequestPlan]) -> dict[str, Any]:
        """Return the method and the URL, secrets masked, as the command; and the method."""
        described = self.describe(call)
        return {
            "command": f"{described['method']} {described['url']}",
            "http_method": described["method"],
        }


def _prepared(call: Call[RequestPlan], *, masked: bool = False) -> PreparedRequest:
    """Return the request of a call; with the secrets of a manifest, which are `***` with `masked`."""
    plan = call.target
    if not isinstance(plan, ManifestPlan):
        return plan.prepare(call.arguments)
    values = field_values(call.credentials, masked=masked)
    secrets = {split_pointer(at)[-1]: value for at, value in values.items()}
    return plan.prepare(call.arguments, secrets)


def _is_success(plan: RequestPlan, status: int) -> bool:
    if isinstance(plan, ManifestPlan):
        return plan.is_success(status) or status == 304
    if 200 <= status < 300 or status == 304:
        return True
    return plan.response is not None and is_declared(status, plan.response.redirects)


def _note_redirection(result: Result, response: OutboundResponse) -> None:
    """Note where redirects have led, and that a response behind a temporary one is not to be cached for the
    URL of the call (RFC 9111 section 4.2.2).
    """
    redirection = response.redirection
    if redirection is None:
        return
    result.url = redirection.url
    if redirection.is_temporary:
        response.headers["Cache-Control"] = "no-store"


def _add_accept(prepared: PreparedRequest, accept: str, call: Call[RequestPlan]) -> None:
    """Add the Accept header of a tool, unless the call has one: that of a client that takes events."""
    if not any(name.lower() == "accept" for name, _ in call.headers):
        prepared.headers.append(("Accept", accept))

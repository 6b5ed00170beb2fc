"""GraphQL: queries and mutations by POST (GraphQL over HTTP), subscriptions by WebSocket at the same URL."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from graphql import GraphQLSchema

from app.core import exact_json
from app.core.errors import FieldError, InvalidArguments
from app.core.text import pointer
from app.formats.utcp.call_template import compile_template
from app.formats.utcp.paths import compile_url
from app.outbound.attach import Headers, attach, sign_upgrade
from app.protocols.base import AdapterContext, Call, ChecksUpstream, Discovered, Result
from app.protocols.graphql.chosen_fields import read_fields
from app.protocols.graphql.documents import GraphqlOperation, document_of_call, read_operation
from app.protocols.graphql.responses import read_introspection, read_result
from app.protocols.graphql.schema_cache import SchemaCache
from app.protocols.graphql.subscriptions import SUBPROTOCOL, Subscription
from app.protocols.graphql.template import GraphqlTemplate
from app.protocols.graphql.tools import INTROSPECTION, build_manual
from app.protocols.requests.plan_compiler import ArgumentPlan, PreparedRequest, compile_plan_without_body
from app.protocols.shared.described import describe_headers
from app.protocols.shared.http_based import HttpBasedAdapter, join_length_prefixed
from app.protocols.shared.messages import map_encoding_errors
from app.protocols.shared.results import JSON, event_result
from app.protocols.shared.websocket_client import Upgrade, WebSocket

_ACCEPT: Final = "application/graphql-response+json, application/json;q=0.9"
_MAX_SCHEMA_BYTES: Final = 16 << 20
"""Bytes of an introspection. GitHub's has 4 MB; parsing takes about a second per MB."""

_NEGOTIATION_HEADERS: Final = frozenset({"accept", "content-type"})


@dataclass(frozen=True, slots=True)
class GraphqlTarget:
    """A compiled template; `operation` is None for one that serves discovery only.

    `placed` are the arguments that go into the URL and headers rather than into variables.
    """

    model: GraphqlTemplate
    plan: ArgumentPlan
    placed: frozenset[str]
    operation: GraphqlOperation | None

    @property
    def kind(self) -> str:
        """The kind of operation: query, mutation or subscription."""
        return "query" if self.operation is None else self.operation.kind


class GraphqlAdapter(HttpBasedAdapter, ChecksUpstream):
    """The adapter for GraphQL operations."""

    name: ClassVar[str] = "graphql"

    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._network = context.network
        self._schemas = SchemaCache()

    def prepare(self, template: Mapping[str, Any]) -> GraphqlTarget:
        """Compile a template of `call_template_type` graphql; raise InvalidInput."""
        model = compile_template(template, GraphqlTemplate)
        plan, placed = compile_plan_without_body(
            compile_url(model.url), method="POST", headers=model.headers, header_fields=model.header_fields
        )
        return GraphqlTarget(model, plan, placed, read_operation(model))

    def origin(self, target: GraphqlTarget) -> str:
        """Return `https://host[:port]`, also for a subscription."""
        return target.plan.origin

    def is_safe(self, target: GraphqlTarget) -> bool:
        """Return whether it is a query, which has no side effects (GraphQL section 6.2.1)."""
        return target.kind == "query"

    def is_idempotent(self, target: GraphqlTarget) -> bool:
        """Return whether it is a query."""
        return target.kind == "query"

    def request_identity(self, call: Call[GraphqlTarget]) -> bytes | None:
        """Return the URL, headers and body of a query; None for other operations."""
        if call.target.kind != "query":
            return None
        # Without the schema, which is not known yet; a call with the same parts has the same document.
        placed = self._post_request(call, self._payload(call, None))
        pieces = [placed.url, *(text for pair in placed.headers for text in pair)]
        return join_length_prefixed([*(piece.encode() for piece in pieces), placed.body or b""])

    def method(self, target: GraphqlTarget) -> str:
        """Return QUERY, MUTATION or SUBSCRIPTION."""
        return target.kind.upper()

    async def call(self, call: Call[GraphqlTarget]) -> Result:
        """Return the operation's data; for a subscription an event for each result, or the list of all.

        Raise UpstreamRejected for a response with errors and no data, and what HTTP and WebSocket raise.
        """
        payload = self._payload(call, await self._schema(call))
        if call.target.kind == "subscription":
            return await self._subscribe(call, payload)
        raw = await self._read(self._post_request(call, payload), call)
        return await read_result(raw, call, self._masker)

    async def discover(self, call: Call[GraphqlTarget]) -> Discovered:
        """Return a manual generated from the introspected schema: a tool for each root field."""
        target = call.target
        max_bytes = min(call.limits.response_bytes, _MAX_SCHEMA_BYTES)
        data = await self._introspect(call, max_bytes=max_bytes)
        required = {name: name not in target.model.header_fields for name in target.placed}
        raw = await asyncio.to_thread(build_manual, data, placed=required)
        return Discovered(raw=raw, media_type=JSON, url=self._head(call).url, is_generated=True)

    async def check(self, call: Call[GraphqlTarget]) -> None:
        """Query `{__typename}`, which every schema has (GraphQL section 4.4)."""
        await self._read(self._post_request(call, {"query": "{__typename}"}), call)

    def describe(self, call: Call[GraphqlTarget]) -> dict[str, Any]:
        """Return the request as JSON; for a subscription the upgrade with its payload as the body."""
        payload = self._payload(call, self._schemas.cached(self._schema_key(call)))
        if call.target.kind != "subscription":
            return self.describe_request(self._post_request(call, payload), call)
        url, headers = self._upgrade(call, masked=True)
        return {"method": "GET", "url": url, "headers": describe_headers(headers), "body": payload}

    async def _read(self, placed: PreparedRequest, call: Call[GraphqlTarget]) -> bytes:
        """Return the body of a response of status 2xx; raise the error for any other."""
        response = await self.send(placed, call)
        if not 200 <= response.status < 300:
            raise await self.rejection(response, call)
        return await response.read(call.limits.response_bytes)

    async def _introspect(self, call: Call[GraphqlTarget], *, max_bytes: int) -> Any:
        """Return the data of the introspection."""
        placed = self._post_request(call, {"query": INTROSPECTION, "operationName": "IntrospectionQuery"})
        limits = replace(call.limits, response_bytes=max_bytes)
        return await read_introspection(await self._read(placed, replace(call, limits=limits)), self._masker)

    async def _schema(self, call: Call[GraphqlTarget]) -> GraphQLSchema | None:
        """Return the server's schema where the call depends on it, and the server describes it."""
        operation = call.target.operation
        if operation is None or (
            operation.document is not None and operation.fields_argument not in call.arguments
        ):
            return None
        # Headers of the call are those of its own request, e.g. for a cached response.
        own = replace(call, headers=(), stream_deadline=None)
        return await self._schemas.schema(
            self._schema_key(call), lambda: self._introspect(own, max_bytes=_MAX_SCHEMA_BYTES)
        )

    def _schema_key(self, call: Call[GraphqlTarget]) -> tuple[object, ...]:
        # Without the arguments: none changes how many requests are sent.
        return (call.target.model.url, call.egress.key if call.egress else b"", call.scope)

    def _payload(self, call: Call[GraphqlTarget], schema: GraphQLSchema | None) -> dict[str, Any]:
        """Return the document, the variables and the operation's name."""
        target = call.target
        operation = target.operation
        if operation is None:
            field_error = FieldError("", "Its call template needs a `query`.")
            raise InvalidArguments("This tool has no operation to request.", errors=[field_error])
        variables = {name: value for name, value in call.arguments.items() if name not in target.placed}
        chosen = None
        if operation.fields_argument in variables:
            value = variables.pop(operation.fields_argument)
            chosen = read_fields(value, at=pointer("", operation.fields_argument))
        types = target.model.variable_types or {}
        document = document_of_call(
            operation,
            variables,
            types=types,
            chosen=chosen,
            schema=schema,
            # With other arguments in the URL or headers the schema may be another one.
            is_checked=not target.placed,
        )
        payload: dict[str, Any] = {"query": document, "variables": variables}
        if operation.document is None or operation.name is None:
            return payload
        return {**payload, "operationName": operation.name}

    def _post_request(self, call: Call[GraphqlTarget], payload: dict[str, Any]) -> PreparedRequest:
        head = self._head(call)
        other_headers = [pair for pair in head.headers if pair[0].lower() not in _NEGOTIATION_HEADERS]
        headers = [*other_headers, ("Accept", _ACCEPT), ("Content-Type", JSON)]
        with map_encoding_errors():
            return head._replace(headers=headers, body=exact_json.dumps(payload))

    def _head(self, call: Call[GraphqlTarget]) -> PreparedRequest:
        target = call.target
        placed_arguments = {name: value for name, value in call.arguments.items() if name in target.placed}
        return target.plan.prepare(placed_arguments)

    def _upgrade(self, call: Call[GraphqlTarget], *, masked: bool = False) -> tuple[str, Headers]:
        head = self._head(call)
        present = {name.lower() for name, _ in head.headers} | _NEGOTIATION_HEADERS
        other_headers = [pair for pair in head.headers if pair[0].lower() not in _NEGOTIATION_HEADERS]
        headers = [*other_headers, *(pair for pair in call.headers if pair[0].lower() not in present)]
        # http becomes ws, and https wss.
        url, headers = attach(
            "ws" + head.url.removeprefix("http"), headers, call.credentials, masked=masked, signs=True
        )
        return (url, headers) if masked else sign_upgrade(url, headers, call.credentials)

    async def _subscribe(self, call: Call[GraphqlTarget], payload: dict[str, Any]) -> Result:
        limits = call.limits
        now = asyncio.get_running_loop().time()
        deadline = min(call.deadline, now + limits.first_byte)
        url, headers = self._upgrade(call)
        socket = await WebSocket.open(
            Upgrade(
                url=url, headers=headers, max_message_bytes=limits.event_bytes, subprotocols=(SUBPROTOCOL,)
            ),
            network=self._network,
            egress=call.egress,
            masker=self._masker,
            connect_deadline=min(deadline, now + limits.connect),
            deadline=deadline,
        )
        subscription = Subscription(socket, self._masker, idle=limits.idle)
        try:
            with map_encoding_errors():
                await subscription.start(payload, deadline=deadline)
        except BaseException:
            socket.close()
            raise
        stream_deadline = call.deadline if call.stream_deadline is None else call.stream_deadline
        return await event_result(subscription.events(deadline=stream_deadline), call, close=socket.close)

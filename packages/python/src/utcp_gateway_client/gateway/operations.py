"""The operations of the gateway's API: their requests, and what their responses say."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from utcp_gateway_client.gateway.approvals import ApprovalPending
from utcp_gateway_client.gateway.errors import UnexpectedResponse, UnknownTools
from utcp_gateway_client.gateway.exchange import Reply, Request, Steps, exchange
from utcp_gateway_client.gateway.model_input import as_json
from utcp_gateway_client.gateway.models import (
    ApprovalPage,
    ApprovalResult,
    ApprovalSummary,
    ApprovalView,
    ContinuationPart,
    MeView,
    Ready,
    ToolCallsResponse,
    ToolDetails,
    ToolExport,
    ToolHit,
    ToolPage,
    ToolsetHit,
    ToolsetPage,
    ToolsetTool,
    ToolsetView,
    WaitingForApproval,
)
from utcp_gateway_client.gateway.results import CallResult, call_result
from utcp_gateway_client.gateway.settings import Settings, Strict

M = TypeVar("M", bound=BaseModel)
_ACCEPTED: Final = 202


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What a call may have beside its arguments.

    `timeout` are seconds; `idempotency_key` identifies the call, in place of one that is made up;
    `max_bytes` and
    `max_tokens` cut the result, `fields` are the parts of it that are wanted, and `repair` says which
    arguments
    are repaired: `off`, `safe` or `on`.
    """

    timeout: float | None = None
    idempotency_key: str | None = None
    max_bytes: int | None = None
    max_tokens: int | None = None
    fields: str | None = None
    repair: str | None = None

    def preferences(self) -> dict[str, str]:
        """Return the header Prefer, if one is needed."""
        parts = []
        if self.max_bytes is not None:
            parts.append(f"max-bytes={self.max_bytes}")
        if self.max_tokens is not None:
            parts.append(f"max-tokens={self.max_tokens}")
        if self.fields is not None:
            parts.append(f"fields={json.dumps(self.fields)}")
        if self.repair is not None:
            parts.append(f"repair={self.repair}")
        return {"Prefer": ", ".join(parts)} if parts else {}


class Operations:
    """The operations of a gateway, as steps. `pending` makes the error of a call that waits for approval."""

    def __init__(self, settings: Settings, pending: Callable[[ApprovalSummary], ApprovalPending]) -> None:
        self.settings = settings
        self._pending = pending

    def search(
        self, query: str, limit: int, provider: str | None, tag: str | None
    ) -> Steps[list[ToolHit] | list[ToolsetHit]]:
        """Return the tools that match best."""
        reply = yield from self._get(
            self.settings.path("/search"), q=query, limit=limit, provider=provider, tag=tag
        )
        items = reply.json().get("items", [])
        if self.settings.toolset is not None:
            return [_model(ToolsetHit, item, reply) for item in items]
        return [_model(ToolHit, item, reply) for item in items]

    def export(
        self,
        wanted: str | Sequence[str] | None,
        dialect: str,
        strict: Strict | None,
        *,
        limit: int | None,
        provider: str | None,
        tag: str | None,
    ) -> Steps[ToolExport]:
        """Return the tools in a dialect: those that match a text, those of these names, or all."""
        names = None if wanted is None or isinstance(wanted, str) else list(wanted)
        export = yield from self._read(
            ToolExport,
            self.settings.path("/export"),
            q=wanted if isinstance(wanted, str) else None,
            names=names,
            format=dialect,
            strict=self._strict(strict),
            limit=limit,
            provider=provider,
            tag=tag,
        )
        if names is not None and export.report.unknown:
            raise UnknownTools(export.report.unknown)
        return export

    def call(self, name: str, arguments: Mapping[str, Any] | None, options: CallOptions) -> Steps[CallResult]:
        """Call a tool; raise ApprovalPending where the call waits for an approval."""
        reply = yield from self._exchange(self._call_request(name, arguments, options, accept="*/*"))
        if reply.status == _ACCEPTED and "x-upstream-status" not in reply.headers:
            raise self._pending(_model(WaitingForApproval, reply.json(), reply).approval)
        try:
            return call_result(reply.status, reply.headers, reply.body)
        except ValueError:
            raise UnexpectedResponse("The upstream's JSON cannot be read.", status=reply.status) from None

    def open_call(self, name: str, arguments: Mapping[str, Any] | None, options: CallOptions) -> Steps[Reply]:
        """Begin a call whose result is streamed as events.

        It has no Idempotency-Key, with which the gateway does not stream, so it is sent once.
        """
        if options.idempotency_key is not None:
            raise ValueError("A streamed call has no Idempotency-Key.")
        request = self._call_request(name, arguments, options, accept="text/event-stream", stream=True)
        reply = yield from self._exchange(request)
        if reply.status == _ACCEPTED:
            raise self._pending(_model(WaitingForApproval, reply.json(), reply).approval)
        return reply

    def run(
        self,
        message: Any,
        dialect: str | None,
        strict: Strict | None,
        options: CallOptions,
        *,
        assistant: bool,
    ) -> Steps[ToolCallsResponse]:
        """Run the calls of a model's response."""
        reply = yield from self._exchange(
            self._run_request(message, dialect, strict, options, assistant=assistant)
        )
        return _model(ToolCallsResponse, reply.json(), reply)

    def open_run(
        self,
        message: Any,
        dialect: str | None,
        strict: Strict | None,
        options: CallOptions,
        *,
        assistant: bool,
    ) -> Steps[Reply]:
        """Begin to run the calls of a model's response, whose results are streamed."""
        request = self._run_request(message, dialect, strict, options, assistant=assistant, stream=True)
        return (yield from self._exchange(request))

    def tool(self, name: str) -> Steps[ToolDetails]:
        """Return a tool, which has no address of a toolset."""
        return (yield from self._read(ToolDetails, f"/tools/{quote(name, safe='')}"))

    def tool_page(self, cursor: str | None, provider: str | None, tag: str | None) -> Steps[ToolPage]:
        """Return a page of the list of tools."""
        return (
            yield from self._read(ToolPage, "/tools", cursor=cursor, provider=provider, tag=tag, limit=100)
        )

    def toolset_tools(self, provider: str | None, tag: str | None) -> Steps[list[ToolsetTool]]:
        """Return the tools of the toolset; raise ValueError for filters, which its list does not have."""
        if provider is not None or tag is not None:
            raise ValueError("The list of a toolset's tools has no filters for provider and tag.")
        view = yield from self._read(ToolsetView, f"/toolsets/{self.settings.toolset}")
        return view.members

    def toolset_page(self, cursor: str | None) -> Steps[ToolsetPage]:
        """Return a page of the list of toolsets."""
        return (yield from self._read(ToolsetPage, "/toolsets", cursor=cursor, limit=100))

    def me(self) -> Steps[MeView]:
        """Return what the API key may do."""
        return (yield from self._read(MeView, "/me"))

    def health(self) -> Steps[Ready]:
        """Return whether the gateway is ready; its state is not worth a second request."""
        reply = yield from exchange(Request("GET", "/health/ready"), timeout=self.settings.timeout, retries=0)
        return _model(Ready, reply.json(), reply)

    def continuation(
        self, handle: str, max_bytes: int | None, max_tokens: int | None, table: str | None
    ) -> Steps[ContinuationPart]:
        """Return the next part of a result that was cut."""
        path = f"/continuations/{quote(handle, safe='')}"
        return (
            yield from self._read(
                ContinuationPart, path, max_bytes=max_bytes, max_tokens=max_tokens, format=table
            )
        )

    def approval_page(
        self, cursor: str | None, state: str | None, kind: str | None, provider: str | None
    ) -> Steps[ApprovalPage]:
        """Return a page of the approvals that the key has requested or may decide."""
        return (
            yield from self._read(
                ApprovalPage,
                "/approvals",
                cursor=cursor,
                state=state,
                kind=kind,
                provider=provider,
                limit=100,
            )
        )

    def decide(self, approval_id: str, decision: str, comment: str) -> Steps[ApprovalView]:
        """Approve or reject, once: a request that ended without a response may have had its effect."""
        path = f"/approvals/{quote(approval_id, safe='')}/{decision}"
        reply = yield from self._exchange(Request("POST", path, body=_json_bytes({"comment": comment})))
        return _model(ApprovalView, reply.json(), reply)

    def approval(self, approval_id: str) -> Steps[ApprovalView]:
        """Return an approval."""
        return (yield from self._read(ApprovalView, f"/approvals/{quote(approval_id, safe='')}"))

    def approval_result(self, approval_id: str) -> Steps[ApprovalResult]:
        """Return the result of an approved call."""
        return (yield from self._read(ApprovalResult, f"/approvals/{quote(approval_id, safe='')}/result"))

    def _call_request(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        options: CallOptions,
        *,
        accept: str,
        stream: bool = False,
    ) -> Request:
        return Request(
            "POST",
            self.settings.path(f"/tools/{quote(name, safe='')}/call"),
            headers={
                "Accept": accept,
                **({} if stream else _idempotency(options)),
                **options.preferences(),
            },
            body=_json_bytes(as_json(arguments or {})),
            timeout=options.timeout,
            repeatable=not stream,
            deadline=True,
            stream=stream,
        )

    def _run_request(
        self,
        message: Any,
        dialect: str | None,
        strict: Strict | None,
        options: CallOptions,
        *,
        assistant: bool,
        stream: bool = False,
    ) -> Request:
        query = {
            "format": dialect,
            "strict": self._strict(strict),
            "assistant": "true" if assistant else None,
            "stream": "true" if stream else None,
            "max_bytes": options.max_bytes,
            "max_tokens": options.max_tokens,
            "fields": options.fields,
        }
        preferences = {"Prefer": f"repair={options.repair}"} if options.repair else {}
        return Request(
            "POST",
            self.settings.path("/tool-calls"),
            query=_given(query),
            headers={
                "Accept": "text/event-stream" if stream else "application/json",
                **_idempotency(options),
                **preferences,
            },
            body=_json_bytes(as_json(message)),
            timeout=options.timeout,
            repeatable=True,
            deadline=True,
            stream=stream,
        )

    def _strict(self, strict: Strict | None) -> str:
        chosen = self.settings.strict if strict is None else strict
        return chosen if isinstance(chosen, str) else str(chosen).lower()

    def _get(self, path: str, **query: Any) -> Steps[Reply]:
        return (yield from self._exchange(Request("GET", path, query=_given(query), repeatable=True)))

    def _read(self, model: type[M], path: str, **query: Any) -> Steps[M]:
        reply = yield from self._get(path, **query)
        return _model(model, reply.json(), reply)

    def _exchange(self, request: Request) -> Steps[Reply]:
        settings = self.settings
        return exchange(request, timeout=settings.timeout, retries=settings.retries)


def _model(model: type[M], value: Any, reply: Reply) -> M:
    try:
        return model.model_validate(value)
    except ValidationError:
        detail = f"The response is no {model.__name__}: is this the address of a gateway?"
        raise UnexpectedResponse(detail, status=reply.status) from None


def _given(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value is not None}


def _idempotency(options: CallOptions) -> dict[str, str]:
    """Return a key that is made once for a call, and is the same in each of its attempts."""
    return {"Idempotency-Key": options.idempotency_key or str(uuid4())}


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

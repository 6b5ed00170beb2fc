"""Request and response models of `/approvals`."""

import base64
import contextlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from pydantic import BaseModel, Field

from app.calls.approvals.call_store import ShownCall
from app.calls.approvals.kinds import ApprovalDecisionName, ApprovalKind, ApprovalState
from app.calls.approvals.records import approval_json
from app.calls.approvals.service import ApprovedResult
from app.calls.arguments.shown import HiddenPart, HiddenReason, Shown
from app.core.media_types import is_json
from app.core.pagination import PageQuery
from app.core.resource_names import PROVIDER_NAME
from app.core.schemas import PageModel, StrictModel, Text, TokenHolder
from app.outbound.charsets import charset_of, decode_text
from app.providers.registration.approval_requirements import operation_text
from app.storage.models import Approval, ApprovalRequirementRow


class ApprovalSubject(BaseModel):
    """What an approval is about."""

    type: Literal["tool", "provider"]
    name: str = Field(examples=["library.lendBook"])
    provider: str = Field(examples=["library"])


class ApprovalFailure(BaseModel):
    """Why an approval failed, or expired before its time."""

    type: str = Field(examples=["urn:utcp-gateway:problem:upstream-timeout"])
    title: str
    status: int
    detail: str


class HiddenValue(BaseModel):
    """A value that is not shown as it is sent."""

    pointer: str = Field(
        description="JSON pointer to it, from the resource that has `hidden`.", examples=["/arguments/pin"]
    )
    reason: HiddenReason = Field(
        description="`declared-secret`: by `writeOnly` or `format: password` of the tool's inputs. "
        "`known-secret`: it has a secret that the gateway knows. `too-large`: to be shown, or to tell "
        "whether it is a secret, or with more than 1,000 hidden parts. `earlier-release`: hidden by a "
        "release that did not list what it hid."
    )
    bytes: int = Field(description="The size of the whole value as JSON, in bytes.", examples=[12])


class ApprovalSummary(BaseModel):
    """An approval as an item of a list."""

    id: UUID
    kind: ApprovalKind = Field(
        description="`origin`: calls or token requests of a provider would go elsewhere. `credential`: "
        "stored "
        "credentials would be used in another way. `definition`: other security. `call`: one call."
    )
    state: ApprovalState = Field(
        description="`pending`; `approved` while the call is made; then `executed`, `failed`, `rejected` or "
        "`expired`."
    )
    subject: ApprovalSubject
    requested_by: str = Field(
        description="Id of the key that requested it; `oauth:` and a digest for an access token.",
        examples=["AgentKey2346"],
    )
    requester: TokenHolder | None = Field(
        None, description="Who requested a call with an access token; null for API keys."
    )
    requested_at: datetime
    expires_at: datetime = Field(description="When it expires, unless it is decided before.")
    decided_by: str | None = Field(description="Id of the key that decided.")
    decided_at: datetime | None
    comment: str = Field(description="The comment of the decision.")
    ended_at: datetime | None = Field(description="When it was executed, failed, was rejected or expired.")
    call_id: UUID | None = Field(description="The record of the call that was made, `GET /calls/{call_id}`.")
    failure: ApprovalFailure | None
    decisions: list[ApprovalDecisionName] | None = Field(
        None,
        description="What the key of this request may decide about it now; empty where it is not pending. "
        "Absent in the response to a call.",
    )
    hidden: list[HiddenValue] | None = Field(
        None,
        description="All that is not shown of what would be done: the rest is shown exactly as it would be "
        "sent or applied. Null in lists, and where it is not known.",
    )

    @classmethod
    def of(cls, row: Approval, decisions: Sequence[ApprovalDecisionName]) -> "ApprovalSummary":
        """Return the summary of a stored approval, and what may be decided about it."""
        return cls.model_validate({**approval_json(row), "decisions": decisions})


class ApprovalView(ApprovalSummary):
    """An approval with what it is about."""

    arguments: dict[str, Any] | None = Field(
        description="Of a call: its arguments as they are sent, but for what `hidden` lists, which is "
        "`***`; null for other kinds."
    )
    operations: list[dict[str, Any]] | None = Field(
        description="Of a provider: the first 1,000 of its pending changes, as in `pending` of the "
        "provider, which has all; null for calls."
    )
    operation_count: int | None = Field(description="Of a provider: the number of its pending changes.")

    @classmethod
    def with_detail(
        cls,
        row: Approval,
        decisions: Sequence[ApprovalDecisionName],
        call: ShownCall | None,
    ) -> "ApprovalView":
        """Return a stored approval with the arguments of its call as they are shown."""
        hidden = _hidden_changes(row) if call is None else call.hidden
        return cls.model_validate(
            {
                **approval_json(row),
                "decisions": decisions,
                "hidden": None if hidden is None else [asdict(part) for part in hidden],
                "arguments": None if call is None else call.arguments,
                "operations": row.detail.get("operations"),
                "operation_count": row.detail.get("count"),
            }
        )


class ApprovalRequest(BaseModel):
    """The request that would be sent if a call were approved now."""

    request: dict[str, Any] | None = Field(
        description="The upstream request as `?dry_run=true` of a call describes it: its credentials, and "
        "what `hidden` lists, are `***`; null where it is hidden as a whole."
    )
    hidden: list[HiddenValue] = Field(description="All of the call's arguments that the request hides.")

    @classmethod
    def of(cls, shown: Shown) -> "ApprovalRequest":
        """Return a request as it is shown."""
        return cls.model_validate({"request": shown.value, "hidden": [asdict(one) for one in shown.hidden]})


class ApprovalPage(PageModel[ApprovalSummary]):
    """A page of approvals."""


class ApprovalQuery(PageQuery):
    """Order and filters of a list of approvals. `q` searches the name of the subject and the comment."""

    sort: Literal["requested_at", "-requested_at", "expires_at", "-expires_at"] = Field(
        "-requested_at", description="Order of the items; `-` for descending."
    )
    kind: ApprovalKind | None = Field(None, description="Only approvals of this kind.")
    state: ApprovalState | None = Field(
        None, description="Only approvals in this state.", examples=["pending"]
    )
    provider: Annotated[str, Field(pattern=PROVIDER_NAME)] | None = Field(
        None, description="Only approvals of this provider and its tools.", examples=["library"]
    )


class ApprovalRequirementView(BaseModel):
    """An operation whose calls require approval, whatever tool makes them."""

    id: UUID
    operation: str = Field(
        description="What the calls do, in one line.", examples=["POST https://bank.example/transfers/{}"]
    )
    protocol: str = Field(examples=["http"])
    origin: str = Field(
        description="Where the calls go; empty where variables decide that.",
        examples=["https://bank.example"],
    )
    method: str = Field(description="The method of HTTP; empty for other protocols.", examples=["POST"])
    path: str | None = Field(
        description="The path of the HTTP requests: `{}` is any segment, `*` any path; null for other "
        "protocols.",
        examples=["/transfers/{}"],
    )
    operations: list[str] = Field(
        description="The protocol's own names of what is done, e.g. a tool of MCP; empty where it has none. "
        "Without HTTP and without names, it is everything at the origin."
    )
    tool: str = Field(
        description="The tool for which approval was required; it need not exist any more.",
        examples=["bank.transfer"],
    )
    provider: str = Field(examples=["bank"])
    created_by: str = Field(
        description="Id of the key that required approval, or whose change let the requirement be kept; "
        "`upgrade` for one of before an upgrade."
    )
    created_at: datetime

    @classmethod
    def of(cls, row: ApprovalRequirementRow) -> "ApprovalRequirementView":
        """Return a stored requirement."""
        stored = row.model_dump(exclude={"tenant_id", "digest"})
        return cls.model_validate({**stored, "operation": operation_text(row)})


class ApprovalRequirementPage(PageModel[ApprovalRequirementView]):
    """A page of requirements of approval."""


class ApprovalRequirementQuery(PageQuery):
    """Order and filters of the list. `q` searches the name of the tool, the origin and the path."""

    sort: Literal["created_at", "-created_at"] = Field(
        "-created_at", description="Order of the items; `-` for descending."
    )
    provider: Annotated[str, Field(pattern=PROVIDER_NAME)] | None = Field(
        None, description="Only requirements of tools of this provider.", examples=["bank"]
    )


class ApprovalDecision(StrictModel):
    """A decision about an approval."""

    comment: Text = Field("", description="Why; shown with the approval and in the audit events.")


class ApprovalResult(BaseModel):
    """The result of an approved call. Exactly one of `json`, `text`, `base64` and `problem` is not null,
    unless the result is the JSON value null or empty.
    """

    call_id: UUID | None = Field(description="The record of the call, `GET /calls/{call_id}`.")
    upstream_status: int | None = Field(description="The upstream's own status, where it responded.")
    media_type: str = Field(examples=["application/json"])
    headers: dict[str, str] = Field(
        default_factory=dict,
        description="Headers of the upstream's response that are passed on, e.g. `Location`, and `X-Pages`.",
        examples=[{"Location": "https://files.example/archive.zip"}],
    )
    value: Any = Field(None, alias="json", description="The upstream's JSON.")
    text: str | None = Field(None, description="The upstream's text.")
    base64: str | None = Field(
        None, description="The upstream's response, where it is neither JSON nor text."
    )
    problem: dict[str, Any] | None = Field(
        None, description="The problem document that the call failed with (RFC 9457)."
    )

    @classmethod
    def of(cls, result: ApprovedResult) -> "ApprovalResult":
        """Return the result of an approved call."""
        members: dict[str, Any] = {
            "call_id": result.call_id,
            "upstream_status": result.upstream_status,
            "media_type": result.media_type,
            "problem": result.problem,
            "headers": {},
        }
        if result.problem is not None:
            members["upstream_status"] = result.problem.get("upstream_status")
        for name, value in result.headers:
            known = members["headers"].get(name)
            members["headers"][name] = value if known is None else f"{known}, {value}"
        if result.problem is None and result.body:
            members |= _content(result.body, result.media_type)
        return cls.model_validate(members)


def _hidden_changes(row: Approval) -> tuple[HiddenPart, ...]:
    """Return which changes of a provider its approval does not show."""
    shown = len(row.detail.get("operations") or ())
    if row.detail.get("count", 0) <= shown:
        return ()
    return (HiddenPart(f"/operations/{shown}", "too-large", row.detail.get("hidden_bytes", 0)),)


def _content(body: bytes, media_type: str) -> dict[str, Any]:
    if is_json(media_type):
        with contextlib.suppress(orjson.JSONDecodeError):
            return {"json": orjson.loads(body)}
    with contextlib.suppress(UnicodeDecodeError):
        text = decode_text(body, charset_of(media_type) or "utf-8")
        if "\x00" not in text:
            return {"text": text}
    return {"base64": base64.b64encode(body).decode()}

"""`utcp-gateway approvals`: what waits for the decision of another key."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from app.cli.output import CommandOutput
from app.cli.pagination import (
    LIMIT_DEFAULT,
    AllOption,
    CursorOption,
    LimitOption,
    Paging,
    QueryOption,
    SortOption,
    show_list,
)
from app.cli.reports import show_operations
from app.cli.session import GatewayCommand, SessionContext
from app.cli.values import confirm, url_path

commands = typer.Typer(
    name="approvals", help="What waits for the decision of another key.", no_args_is_help=True
)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `approvals list` shows it.")]
CommentOption = Annotated[str, typer.Option("--comment", "-m", help="Why; shown with the approval.")]


@dataclass(frozen=True, slots=True)
class ApprovalFilter:
    """Which approvals to list; the fields are query parameters of `GET /approvals`."""

    kind: str | None
    state: str | None
    provider: str | None


@commands.command("list", cls=GatewayCommand)
def list_approvals(
    ctx: SessionContext,
    *,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only origin, credential, definition or call.")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option("--state", help="Only pending, approved, executed, failed, rejected or expired ones."),
    ] = None,
    provider: Annotated[
        str | None, typer.Option("--provider", help="Only those of this provider and its tools.")
    ] = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the approvals that the key has requested or may decide about, newest first."""
    columns = ("REQUESTED", "KIND", "SUBJECT", "STATE", "BY", "EXPIRES", "DECIDED BY", "ID")
    query = asdict(ApprovalFilter(kind, state, provider))
    paging = Paging(limit, everything, cursor, sort, q)
    show_list(ctx.obj, "/approvals", query=query, paging=paging, columns=columns, row=_row)


@commands.command("show", cls=GatewayCommand)
def show_approval(ctx: SessionContext, *, approval_id: IdArgument) -> None:
    """Show an approval: the arguments of a call, with secrets masked, or the changes of a provider."""
    session = ctx.obj
    found = session.gateway.get(url_path("approvals", approval_id)).json()
    if session.output.is_structured:
        session.output.document(found)
        return
    _show(session.output, found)


@commands.command("result", cls=GatewayCommand)
def show_result(ctx: SessionContext, *, approval_id: IdArgument) -> None:
    """Show the result of an approved call, to the key that requested it."""
    session = ctx.obj
    session.output.document(session.gateway.get(url_path("approvals", approval_id, "result")).json())


@commands.command("approve", cls=GatewayCommand)
def approve(
    ctx: SessionContext,
    *,
    approval_id: IdArgument,
    comment: CommentOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Approve: the call is made, once, or the changes are applied exactly as they are shown.

    The key that requested it cannot approve it, nor can a key that this one has created.
    """
    session = ctx.obj
    if not yes:
        found = session.gateway.get(url_path("approvals", approval_id)).json()
        if not session.output.is_structured:
            _show(session.output, found)
        confirm("Approve this?")
    _decide(ctx, approval_id, "approve", comment)


@commands.command("reject", cls=GatewayCommand)
def reject(ctx: SessionContext, *, approval_id: IdArgument, comment: CommentOption = "") -> None:
    """Reject: what was requested is not done. A key may reject its own request."""
    _decide(ctx, approval_id, "reject", comment)


def _decide(ctx: SessionContext, approval_id: str, decision: str, comment: str) -> None:
    session = ctx.obj
    path = url_path("approvals", approval_id, decision)
    decided = session.gateway.send("POST", path, json={"comment": comment}).json()
    if session.output.is_structured:
        session.output.document(decided)
        return
    failure = decided.get("failure")
    session.output.note(f"The approval is {decided['state']} now.")
    if failure:
        session.output.warn(f"{failure['title']}: {failure['detail']}")


def _show(output: CommandOutput, approval: Mapping[str, Any]) -> None:
    hidden = ("subject", "arguments", "operations", "failure")
    pairs = [(name, value) for name, value in approval.items() if name not in hidden]
    output.fields([("subject", approval["subject"]["name"]), *pairs])
    if approval.get("arguments") is not None:
        output.document(approval["arguments"])
    if approval.get("operations"):
        show_operations(output, approval["operations"])
    failure = approval.get("failure")
    if failure:
        output.warn(f"{failure['title']}: {failure['detail']}")


def _row(approval: Mapping[str, Any]) -> tuple[object, ...]:
    first = (approval["requested_at"], approval["kind"], approval["subject"]["name"], approval["state"])
    last = (approval["requested_by"], approval["expires_at"], approval["decided_by"], approval["id"])
    return (*first, *last)

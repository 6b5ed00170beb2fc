"""`utcp-gateway approvals`: what waits for the decision of another key."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from app.cli.completion import complete_provider_names
from app.cli.output import CommandOutput, escape_json, write_json
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
from app.cli.values import build_url_path, confirm

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
        str | None,
        typer.Option(
            "--provider",
            autocompletion=complete_provider_names,
            help="Only those of this provider and its tools.",
        ),
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
    importance = ("ID", "SUBJECT", "STATE", "KIND", "REQUESTED", "BY")
    show_list(
        ctx.obj,
        "/approvals",
        query=query,
        paging=paging,
        columns=columns,
        row=_build_row,
        importance=importance,
    )


@commands.command("show", cls=GatewayCommand)
def show_approval(ctx: SessionContext, *, approval_id: IdArgument) -> None:
    """Show an approval: the arguments of a call or the changes of a provider, and what of it is hidden."""
    output = ctx.obj.output
    approval = _read(ctx, approval_id)
    if output.is_structured:
        output.write_document(approval)
        return
    _show(output, approval, output.write_text)


@commands.command("result", cls=GatewayCommand)
def show_result(ctx: SessionContext, *, approval_id: IdArgument) -> None:
    """Show the result of an approved call, to the key that requested it."""
    session = ctx.obj
    session.output.write_document(
        session.gateway.get(build_url_path("approvals", approval_id, "result")).json()
    )


@commands.command("approve", cls=GatewayCommand)
def approve(
    ctx: SessionContext,
    *,
    approval_id: IdArgument,
    comment: CommentOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Approve: the call is made, once, or the changes are applied exactly as they are shown.

    The key that requested it cannot approve it, nor can a key that this one has created. What is hidden of it
    is listed before the question.
    """
    output = ctx.obj.output
    if not yes:
        # Standard output holds nothing but the value in the formats for programs.
        _show(output, _read(ctx, approval_id), output.note if output.is_structured else output.write_text)
        confirm("Approve this?")
    _decide(ctx, approval_id, "approve", comment)


@commands.command("reject", cls=GatewayCommand)
def reject(ctx: SessionContext, *, approval_id: IdArgument, comment: CommentOption = "") -> None:
    """Reject: what was requested is not done. A key may reject its own request."""
    _decide(ctx, approval_id, "reject", comment)


def _read(ctx: SessionContext, approval_id: str) -> dict[str, Any]:
    """Return an approval; its numbers keep their digits."""
    approval: dict[str, Any] = ctx.obj.gateway.get(build_url_path("approvals", approval_id)).exact_json()
    return approval


@commands.command("requirements", cls=GatewayCommand)
def list_requirements(
    ctx: SessionContext,
    *,
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider", autocompletion=complete_provider_names, help="Only those of tools of this provider."
        ),
    ] = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the operations whose calls require approval, whatever tool makes them, newest first."""
    columns = ("CREATED", "OPERATION", "TOOL", "BY", "ID")
    paging = Paging(limit, everything, cursor, sort, q)
    show_list(
        ctx.obj,
        "/approval-requirements",
        query={"provider": provider},
        paging=paging,
        columns=columns,
        row=_build_requirement_row,
        importance=("ID", "TOOL", "OPERATION"),
    )


@commands.command("remove-requirement", cls=GatewayCommand)
def remove_requirement(
    ctx: SessionContext,
    *,
    requirement_id: Annotated[
        str, typer.Argument(metavar="ID", help="As `approvals requirements` shows it.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove a requirement: tools that are registered from now on make such calls without approval."""
    session = ctx.obj
    path = build_url_path("approval-requirements", requirement_id)
    if not yes:
        operation = session.gateway.get(path).json()["operation"]
        confirm(f"Let new tools call {operation} without approval?")
    session.gateway.delete(path)
    if session.output.is_structured:
        session.output.write_document({"removed": requirement_id})
        return
    session.output.note("The requirement is removed.")


def _build_requirement_row(requirement: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(requirement[name] for name in ("created_at", "operation", "tool", "created_by", "id"))


def _decide(ctx: SessionContext, approval_id: str, decision: str, comment: str) -> None:
    session = ctx.obj
    path = build_url_path("approvals", approval_id, decision)
    decided = session.gateway.send("POST", path, json={"comment": comment}).json()
    if session.output.is_structured:
        session.output.write_document(decided)
        return
    failure = decided.get("failure")
    session.output.note(f"The approval is {decided['state']} now.")
    if failure:
        session.output.warn(f"{failure['title']}: {failure['detail']}")


def _show(output: CommandOutput, approval: Mapping[str, Any], write: Callable[[str], None]) -> None:
    """Write an approval with `write`, all of it that is decided about, and what is hidden at the end."""
    if not output.is_structured:
        apart = ("subject", "arguments", "operations", "failure", "hidden")
        pairs = [(name, value) for name, value in approval.items() if name not in apart]
        output.write_fields([("subject", approval["subject"]["name"]), *pairs])
    if approval.get("arguments") is not None:
        write_json(approval["arguments"], write)
    if approval.get("operations"):
        if output.is_structured:
            write_json(approval["operations"], write)
        else:
            show_operations(output, approval["operations"], complete=True)
    failure = approval.get("failure")
    if failure:
        output.warn(f"{failure['title']}: {failure['detail']}")
    for part in approval.get("hidden") or ():
        output.warn(f"Hidden: {escape_json(part['pointer'])} ({part['reason']}, {part['bytes']:,} bytes)")


def _build_row(approval: Mapping[str, Any]) -> tuple[object, ...]:
    first = (approval["requested_at"], approval["kind"], approval["subject"]["name"], approval["state"])
    last = (approval["requested_by"], approval["expires_at"], approval["decided_by"], approval["id"])
    return (*first, *last)

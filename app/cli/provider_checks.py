"""`utcp-gateway providers check|health`: whether registered APIs work."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from app.cli.completion import complete_provider_names, complete_tool_names
from app.cli.errors import ExitCode
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
from app.cli.session import GatewayCommand, SessionContext
from app.cli.values import build_url_path

commands = typer.Typer()

_EXIT_CODES = {"ok": ExitCode.OK, "degraded": ExitCode.PARTIAL}


@commands.command("check", cls=GatewayCommand)
def check(
    ctx: SessionContext,
    *,
    name: Annotated[str, typer.Argument(help="The provider.", autocompletion=complete_provider_names)],
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Call an operation without effects to see if credentials are accepted."),
    ] = False,
    tool: Annotated[
        str | None,
        typer.Option(
            "--tool", autocompletion=complete_tool_names, help="The tool to call for that; it must be safe."
        ),
    ] = None,
) -> None:
    """Check the origins, certificates and credentials of a provider.

    Exits with 1 if an origin cannot be reached or a credential is not usable, with 4 if it is degraded.
    """
    session = ctx.obj
    body = {key: value for key, value in (("probe", probe or None), ("tool", tool)) if value is not None}
    with session.output.show_waiting(f"Checking {name}"):
        result = session.gateway.send("POST", build_url_path("providers", name, "check"), json=body).json()
    if session.output.is_structured:
        session.output.write_document(result)
    else:
        output = session.output
        output.write_fields([("name", result["provider"]), ("status", result["status"])])
        output.write_table(
            ("ORIGIN", "STATUS", "HTTP", "MS", "CERTIFICATE UNTIL"), map(_build_origin_row, result["origins"])
        )
        if result["credentials"]:
            rows = (
                (protocol["slot"], protocol["kind"], protocol["status"], protocol["tool"])
                for protocol in result["credentials"]
            )
            output.write_table(("SLOT", "KIND", "STATUS", "TOOL"), rows)
        for protocol in result["protocols"]:
            output.write_fields([(f"{protocol['protocol']} ({protocol['tool']})", protocol["status"])])
        for hint in result["hints"]:
            output.warn(hint)
    code = _EXIT_CODES.get(result["status"], ExitCode.FAILED)
    if code is not ExitCode.OK:
        raise typer.Exit(code)


@commands.command("health", cls=GatewayCommand)
def health(
    ctx: SessionContext,
    *,
    provider: Annotated[
        str | None,
        typer.Option("--provider", autocompletion=complete_provider_names, help="Only this provider."),
    ] = None,
    state: Annotated[
        str | None, typer.Option("--state", help="ok, degraded, failed, away, paused, unknown or pending.")
    ] = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the health of the providers: breakers, errors of the last hour, last check, certificates."""
    show_list(
        ctx.obj,
        "/provider-health",
        query={"provider": provider, "state": state},
        paging=Paging(limit, everything, cursor, sort, q),
        columns=(
            "NAME", "STATE", "BREAKERS", "CALLS", "ERRORS", "P95 MS", "LAST ERROR", "CHECKED",
            "CERTIFICATE UNTIL",
        ),
        row=_build_health_row,
        importance=("NAME", "STATE", "ERRORS", "CALLS", "LAST ERROR", "P95 MS", "CHECKED", "BREAKERS"),
    )  # fmt: skip


def _build_origin_row(origin: Mapping[str, Any]) -> tuple[object, ...]:
    certificate = origin.get("certificate") or {}
    milliseconds = round(sum(step["milliseconds"] for step in origin["steps"]), 1)
    return (
        origin["origin"],
        origin["status"].replace("_", " "),
        origin.get("http_status"),
        milliseconds,
        certificate.get("valid_until"),
    )


def _build_health_row(item: Mapping[str, Any]) -> tuple[object, ...]:
    breakers = sorted({breaker["state"].replace("_", " ") for breaker in item["breakers"]})
    last_error, last_check = item.get("last_error") or {}, item.get("last_check") or {}
    return (
        item["name"],
        item["state"],
        breakers,
        item["calls"],
        item["errors"],
        item.get("p95_ms"),
        last_error.get("outcome"),
        last_check.get("status"),
        item.get("certificate_expires_at"),
    )

"""`utcp-gateway variables`: the values of `${NAME}` in providers and credentials."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from app.cli.completion import complete_provider_names
from app.cli.errors import InputError
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
from app.cli.values import SECRET_HELP, build_url_path, read_bytes, read_secret

commands = typer.Typer(
    name="variables",
    help="Variables: the values of ${NAME} in providers and credentials.",
    no_args_is_help=True,
)

ProviderOption = Annotated[
    str | None,
    typer.Option(
        "--provider",
        autocompletion=complete_provider_names,
        help="The variable of this provider, not the shared one.",
    ),
]
NameArgument = Annotated[str, typer.Argument(help="The name, without ${}.")]


def _build_variables_path(provider: str | None) -> str:
    return build_url_path("providers", provider, "variables") if provider is not None else "/variables"


@commands.command("list", cls=GatewayCommand)
def list_variables(
    ctx: SessionContext,
    *,
    provider: ProviderOption = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List variables; secret ones without their value."""
    session = ctx.obj
    paging = Paging(limit, everything, cursor, sort, q)
    show_list(
        session,
        _build_variables_path(provider),
        query={},
        paging=paging,
        columns=("NAME", "SECRET", "VALUE", "ORIGINS", "UPDATED"),
        row=_build_row,
    )


@commands.command("set", cls=GatewayCommand)
def set_variable(
    ctx: SessionContext,
    *,
    name: NameArgument,
    value: Annotated[str | None, typer.Argument(help="The value, unless it is secret.")] = None,
    secret: Annotated[str | None, typer.Option("--secret", metavar="SOURCE", help=SECRET_HELP)] = None,
    provider: ProviderOption = None,
    origins: Annotated[
        list[str] | None,
        typer.Option("--origin", help="Of a shared secret: send it to this origin only; may be repeated."),
    ] = None,
) -> None:
    """Set a variable: `variables set REGION eu`, `variables set TOKEN --secret -`."""
    session = ctx.obj
    if (value is None) == (secret is None):
        raise InputError("Give either a value or --secret SOURCE.")
    text = value if secret is None else read_secret(secret, prompt=f"Value of {name}")
    body: dict[str, Any] = {"value": text, "secret": secret is not None}
    if origins:
        body["allowed_origins"] = origins
    response = session.gateway.send("PUT", _build_variables_path(provider) + build_url_path(name), json=body)
    if session.output.is_structured:
        session.output.write_document(response.json() or {"name": name, "secret": secret is not None})
        return
    session.output.note(f"Set {name}{' (secret)' if secret else ''}.")


@commands.command("allow", cls=GatewayCommand)
def allow(
    ctx: SessionContext,
    *,
    name: NameArgument,
    origins: Annotated[list[str], typer.Argument(metavar="ORIGIN...", help="All origins that it may have.")],
) -> None:
    """Set the only origins to which a shared secret variable is sent; its value stays."""
    session = ctx.obj
    path = _build_variables_path(None) + build_url_path(name)
    changed = session.gateway.send("PATCH", path, json={"allowed_origins": origins}).json()
    if session.output.is_structured:
        session.output.write_document(changed)
        return
    session.output.note(f"{name} is sent to {', '.join(changed['allowed_origins'])} only.")


@commands.command("remove", cls=GatewayCommand)
def remove(ctx: SessionContext, *, name: NameArgument, provider: ProviderOption = None) -> None:
    """Delete a variable."""
    session = ctx.obj
    session.gateway.delete(_build_variables_path(provider) + build_url_path(name))
    if session.output.is_structured:
        session.output.write_document({"removed": name})
        return
    session.output.note(f"Removed {name}.")


@commands.command("import", cls=GatewayCommand)
def import_env(
    ctx: SessionContext,
    *,
    file: Annotated[str, typer.Argument(help="A .env file; '-' for standard input.")],
) -> None:
    """Import a .env file; every value is stored as a secret."""
    session = ctx.obj
    content = read_bytes(file)
    result = session.gateway.send(
        "POST", "/variables/import", content=content, headers={"Content-Type": "text/plain"}
    ).json()
    if session.output.is_structured:
        session.output.write_document(result)
        return
    stored, created = result["stored"], result["created"]
    session.output.note(f"Stored {len(stored)} variables, {len(created)} of them new: {', '.join(stored)}")


def _build_row(variable: Mapping[str, Any]) -> tuple[object, ...]:
    secret = variable.get("secret")
    value = "***" if secret else variable.get("value")
    origins = ", ".join(variable.get("allowed_origins") or ())
    return (variable["name"], secret, value, origins, variable.get("updated_at"))

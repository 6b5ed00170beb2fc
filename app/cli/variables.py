"""`utcp-gateway variables`: what `${NAME}` stands for in providers and credentials."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from app.cli.outcome import BadInput
from app.cli.pages import Paging, collect, show
from app.cli.session import Session, remote
from app.cli.values import SECRET_HELP, path, read_bytes, read_secret

commands = typer.Typer(name="variables", help="What ${NAME} stands for.", no_args_is_help=True)

ProviderOption = Annotated[
    str | None, typer.Option("--provider", help="The variable of this provider, not the shared one.")
]
NameArgument = Annotated[str, typer.Argument(help="The name, without ${}.")]


def _base(provider: str | None) -> str:
    return path("providers", provider, "variables") if provider is not None else "/variables"


@commands.command("list")
@remote
def list_variables(
    session: Session,
    *,
    provider: ProviderOption = None,
    paging: Paging,
) -> None:
    """List variables; secret ones without their value."""
    page = collect(session, _base(provider), query={}, paging=paging)
    show(session, page, columns=("NAME", "SECRET", "VALUE", "UPDATED"), row=_row)


@commands.command("set")
@remote
def set_variable(
    session: Session,
    *,
    name: NameArgument,
    value: Annotated[str | None, typer.Argument(help="The value, unless it is secret.")] = None,
    secret: Annotated[str | None, typer.Option("--secret", metavar="SOURCE", help=SECRET_HELP)] = None,
    provider: ProviderOption = None,
) -> None:
    """Set a variable: `variables set REGION eu`, `variables set TOKEN --secret -`."""
    if (value is None) == (secret is None):
        raise BadInput("Give either a value or --secret SOURCE.")
    text = value if secret is None else read_secret(secret, prompt=f"Value of {name}")
    body = {"value": text, "secret": secret is not None}
    answer = session.gateway.send("PUT", _base(provider) + path(name), json=body)
    if session.output.json:
        session.output.document(answer.json() or {"name": name, "secret": secret is not None})
        return
    session.output.note(f"Set {name}{' (secret)' if secret else ''}.")


@commands.command("remove")
@remote
def remove(session: Session, *, name: NameArgument, provider: ProviderOption = None) -> None:
    """Remove a variable."""
    session.gateway.delete(_base(provider) + path(name))
    if session.output.json:
        session.output.document({"removed": name})
        return
    session.output.note(f"Removed {name}.")


@commands.command("import")
@remote
def import_env(
    session: Session,
    *,
    file: Annotated[str, typer.Argument(help="A .env file; '-' for standard input.")],
) -> None:
    """Import a .env file; every value is stored as a secret."""
    content = read_bytes(file)
    answer = session.gateway.send(
        "POST", "/variables/import", content=content, headers={"Content-Type": "text/plain"}
    ).json()
    if session.output.json:
        session.output.document(answer)
        return
    stored, created = answer["stored"], answer["created"]
    session.output.note(f"Stored {len(stored)} variables, {len(created)} of them new: {', '.join(stored)}")


def _row(variable: Mapping[str, Any]) -> tuple[object, ...]:
    secret = variable.get("secret")
    return (variable["name"], secret, "***" if secret else variable.get("value"), variable.get("updated_at"))

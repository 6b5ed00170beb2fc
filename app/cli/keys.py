"""`utcp-gateway keys`: the API keys of clients."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from app.cli.errors import InputError
from app.cli.pagination import LIMIT_DEFAULT, AllOption, CursorOption, LimitOption, Paging, show_list
from app.cli.session import GatewayCommand, SessionContext
from app.cli.values import parse_time, url_path
from app.security.rate_limit import RateLimit

commands = typer.Typer(name="keys", help="API keys of clients.", no_args_is_help=True)


@commands.command("create", cls=GatewayCommand)
def create(
    ctx: SessionContext,
    *,
    name: Annotated[str, typer.Argument(help="What or whom the key is for.")],
    scope: Annotated[
        list[str], typer.Option("--scope", "-s", help="What it allows, e.g. tools:call; may be repeated.")
    ],
    provider: Annotated[
        list[str] | None, typer.Option("--provider", help="Only tools of these providers; may be repeated.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            "--tag", help="Only tools with one of these tags of their registration; may be repeated."
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", help="When it expires: 12h, 30d, 8w, or a time like 2030-01-31T00:00Z."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate", help="Rate limit of its calls, e.g. 100/60 (calls/seconds) or 100/60:20 (with a burst)."
        ),
    ] = None,
) -> None:
    """Create a key and print it, once: the gateway stores only a digest.

    Standard output holds nothing but the key, so that KEY=$(utcp-gateway keys create ...) works.
    """
    session = ctx.obj
    body: dict[str, Any] = {"name": name, "scopes": scope}
    if provider:
        body["providers"] = provider
    if tag:
        body["tags"] = tag
    if expires:
        body["expires_at"] = parse_time(expires, option="--expires")
    if rate:
        body["rate_limit"] = _parse_rate(rate)
    created = session.gateway.send("POST", "/keys", json=body).json()
    if session.output.json:
        session.output.document(created)
        return
    session.output.note(f"Key {created.get('id')} for {name}; it is shown only now:")
    session.output.text(created["key"])


@commands.command("list", cls=GatewayCommand)
def list_keys(
    ctx: SessionContext,
    *,
    revoked: Annotated[bool, typer.Option("--revoked", help="Revoked keys, too.")] = False,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
) -> None:
    """List the keys; their text is never shown again."""
    session = ctx.obj
    columns = ("ID", "NAME", "SCOPES", "PROVIDERS", "TAGS", "RATE", "EXPIRES", "LAST USED", "STATE")
    paging = Paging(limit, everything, cursor)
    show_list(
        session, "/keys", query={"include_revoked": revoked or None}, paging=paging, columns=columns, row=_row
    )


@commands.command("revoke", cls=GatewayCommand)
def revoke(
    ctx: SessionContext,
    *,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `keys list` shows it.")],
) -> None:
    """Revoke a key: at once on this worker, everywhere within seconds."""
    session = ctx.obj
    response = session.gateway.delete(url_path("keys", key_id))
    if session.output.json:
        session.output.document(response.json() or {"revoked": key_id})
        return
    session.output.note(f"Revoked {key_id}.")


def _parse_rate(text: str) -> dict[str, int]:
    try:
        return RateLimit.parse(text).to_stored()
    except ValueError as error:
        raise InputError(f"--rate {error}.") from None


def _format_rate(stored: Mapping[str, int] | None) -> str | None:
    """Return a rate limit in the form of `--rate`."""
    return None if stored is None else "{requests}/{per_seconds}:{burst}".format_map(stored)


def _row(key: Mapping[str, Any]) -> tuple[object, ...]:
    first = tuple(key.get(member) for member in ("id", "name", "scopes", "providers", "tags"))
    last = tuple(key.get(member) for member in ("expires_at", "last_used_at", "state"))
    return (*first, _format_rate(key.get("rate_limit")), *last)

"""`utcp-gateway keys`: the API keys of callers."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from app.cli.outcome import BadInput
from app.cli.pages import Paging, collect, show
from app.cli.session import Session, remote
from app.cli.values import moment, path
from app.security.rate_limit import RateLimit

commands = typer.Typer(name="keys", help="API keys of callers.", no_args_is_help=True)


@commands.command("create")
@remote
def create(
    session: Session,
    *,
    name: Annotated[str, typer.Argument(help="What or whom the key is for.")],
    scope: Annotated[
        list[str], typer.Option("--scope", "-s", help="What it may do, e.g. tools:call; may be repeated.")
    ],
    provider: Annotated[
        list[str] | None, typer.Option("--provider", help="Only tools of these providers; may be repeated.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="Only tools that a registrar tagged so; may be repeated."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", help="When it ends: 12h, 30d, 8w, or a time like 2030-01-31T00:00Z."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate", help="How often it may call tools, e.g. 100/60 (calls/seconds) or 100/60:20 (a burst)."
        ),
    ] = None,
) -> None:
    """Create a key and print it, once: the gateway keeps only a digest.

    Standard output holds nothing but the key, so that KEY=$(utcp-gateway keys create ...) works.
    """
    body: dict[str, Any] = {"name": name, "scopes": scope}
    if provider:
        body["providers"] = provider
    if tag:
        body["tags"] = tag
    if expires:
        body["expires_at"] = moment(expires, option="--expires")
    if rate:
        body["rate_limit"] = _limit(rate)
    created = session.gateway.send("POST", "/keys", json=body).json()
    if session.output.json:
        session.output.document(created)
        return
    session.output.note(f"Key {created.get('id')} for {name}; it is shown only now:")
    session.output.text(created["key"])


@commands.command("list")
@remote
def list_keys(
    session: Session,
    *,
    revoked: Annotated[bool, typer.Option("--revoked", help="Revoked keys, too.")] = False,
    paging: Paging,
) -> None:
    """List the keys; their text is never shown again."""
    page = collect(session, "/keys", query={"include_revoked": revoked or None}, paging=paging)
    columns = ("ID", "NAME", "SCOPES", "PROVIDERS", "TAGS", "RATE", "EXPIRES", "LAST USED", "STATE")
    show(session, page, columns=columns, row=_row)


@commands.command("revoke")
@remote
def revoke(
    session: Session, *, key_id: Annotated[str, typer.Argument(metavar="ID", help="As `keys list` shows it.")]
) -> None:
    """Revoke a key: at once on this worker, everywhere within seconds."""
    answer = session.gateway.delete(path("keys", key_id))
    if session.output.json:
        session.output.document(answer.json() or {"revoked": key_id})
        return
    session.output.note(f"Revoked {key_id}.")


def _limit(text: str) -> dict[str, int]:
    try:
        return RateLimit.parse(text).stored()
    except ValueError as error:
        raise BadInput(f"--rate {error}.") from None


def _rate(stored: Mapping[str, int] | None) -> str | None:
    """As `--rate` takes it."""
    return None if stored is None else "{requests}/{per_seconds}:{burst}".format_map(stored)


def _row(key: Mapping[str, Any]) -> tuple[object, ...]:
    first = tuple(key.get(member) for member in ("id", "name", "scopes", "providers", "tags"))
    last = tuple(key.get(member) for member in ("expires_at", "last_used_at", "state"))
    return (*first, _rate(key.get("rate_limit")), *last)

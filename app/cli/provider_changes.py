"""`utcp-gateway providers edit|pause|resume`: change registered APIs."""

from typing import Annotated, Any

import typer

from app.cli.completion import complete_provider_names
from app.cli.errors import InputError
from app.cli.session import ClientSession, GatewayCommand, SessionContext
from app.cli.values import build_url_path, read_json

commands = typer.Typer()

NamesArgument = Annotated[
    list[str],
    typer.Argument(metavar="NAME...", help="The providers.", autocompletion=complete_provider_names),
]


@commands.command("edit", cls=GatewayCommand)
def edit(
    ctx: SessionContext,
    *,
    name: Annotated[str, typer.Argument(help="The provider.", autocompletion=complete_provider_names)],
    description: Annotated[str | None, typer.Option("--description", help="Another description.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="A tag; may be repeated. They replace all its tags.")
    ] = None,
    no_tags: Annotated[bool, typer.Option("--no-tags", help="Remove all its tags.")] = False,
    language: Annotated[
        str | None,
        typer.Option("--language", help="The language of its tools' texts, e.g. de; \"\": the document's."),
    ] = None,
    base_url: Annotated[str | None, typer.Option("--base-url", help="Another address of the API.")] = None,
    limits: Annotated[
        str | None,
        typer.Option(
            "--limits", metavar="JSON", help="Limits to change as JSON, '@FILE' or '-'; null: the default."
        ),
    ] = None,
    options: Annotated[
        str | None,
        typer.Option(
            "--options", metavar="JSON", help="Options to change as JSON, '@FILE' or '-'; null: the default."
        ),
    ] = None,
    if_match: Annotated[
        str | None, typer.Option("--if-match", metavar="ETAG", help="Fail unless it still has this version.")
    ] = None,
) -> None:
    """Change the description, tags, language, limits or options of a provider; all else stays."""
    session = ctx.obj
    body: dict[str, Any] = {} if description is None else {"description": description}
    if tag and no_tags:
        raise InputError("Give --tag or --no-tags, not both.")
    if tag or no_tags:
        body["tags"] = tag or []
    if language is not None:
        body["language"] = language or None
    if limits is not None:
        body["limits"] = _read_object(limits, option="--limits")
    if options is not None:
        body["options"] = _read_object(options, option="--options")
    if base_url is not None:
        body["options"] = {**body.get("options", {}), "base_url": base_url}
    if not body:
        raise InputError(
            "Give what is to change: --description, --tag, --language, --base-url, --limits or --options."
        )
    changed = _patch(session, name, body, if_match=if_match)
    if session.output.is_structured:
        session.output.write_document(changed)
        return
    session.output.note(f"Changed {name}: {', '.join(sorted(body))}.")


@commands.command("pause", cls=GatewayCommand)
def pause(ctx: SessionContext, *, names: NamesArgument) -> None:
    """Pause providers: calls of their tools are rejected, and agents do not see them, until `resume`."""
    _set_enabled(ctx.obj, names, enabled=False, done="Paused")


@commands.command("resume", cls=GatewayCommand)
def resume(ctx: SessionContext, *, names: NamesArgument) -> None:
    """Resume paused providers."""
    _set_enabled(ctx.obj, names, enabled=True, done="Resumed")


def _set_enabled(session: ClientSession, names: list[str], *, enabled: bool, done: str) -> None:
    for name in names:
        build_url_path("providers", name)
    changed = [_patch(session, name, {"enabled": enabled}) for name in names]
    if session.output.is_structured:
        session.output.write_document(changed[0] if len(changed) == 1 else {"items": changed})
        return
    session.output.note(f"{done} {', '.join(names)}.")


def _patch(
    session: ClientSession, name: str, body: dict[str, Any], *, if_match: str | None = None
) -> dict[str, Any]:
    headers = {} if if_match is None else {"If-Match": if_match}
    response = session.gateway.send("PATCH", build_url_path("providers", name), json=body, headers=headers)
    changed: dict[str, Any] = response.json()
    return changed


def _read_object(text: str, *, option: str) -> dict[str, Any]:
    value = read_json(text, option=option)
    if not isinstance(value, dict):
        raise InputError(f"{option} must be a JSON object.")
    return value

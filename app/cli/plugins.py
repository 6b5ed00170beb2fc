"""`utcp-gateway plugins`: the catalogue of ready providers, and enabling them."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import orjson
import typer

from app.cli.errors import InputError
from app.cli.output import shorten
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
from app.cli.session import ClientSession, GatewayCommand, SessionContext
from app.cli.values import build_url_path, confirm, read_secret, read_text

commands = typer.Typer(name="plugins", help="Ready providers, off until enabled.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="The name of the plugin.")]


@commands.command("list", cls=GatewayCommand)
def list_plugins(
    ctx: SessionContext,
    *,
    state: Annotated[str | None, typer.Option("--state", help="off or enabled.")] = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the catalogue, and what of it is enabled; --query finds plugins by words."""
    columns = ("NAME", "STATE", "VERSION", "TOOLS", "TITLE", "DESCRIPTION")
    paging = Paging(limit, everything, cursor, sort, q)
    show_list(
        ctx.obj,
        "/plugins",
        query={"state": state},
        paging=paging,
        columns=columns,
        row=_build_row,
        importance=("NAME", "STATE", "TITLE", "DESCRIPTION"),
    )


@commands.command("show", cls=GatewayCommand)
def show(ctx: SessionContext, *, name: NameArgument) -> None:
    """Show a plugin: its tools, and the settings and credentials that it takes and where to get them."""
    _print(ctx.obj, ctx.obj.gateway.get(build_url_path("plugins", name)).json())


@commands.command("enable", cls=GatewayCommand)
def enable(
    ctx: SessionContext,
    *,
    name: NameArgument,
    credential_env: Annotated[
        list[str] | None,
        typer.Option(
            "--credential-env",
            metavar="[SLOT=]NAME",
            help="The environment variable with a credential, e.g. GITHUB_TOKEN; may be repeated.",
        ),
    ] = None,
    credential: Annotated[
        list[str] | None,
        typer.Option(
            "--credential",
            metavar="SLOT=SOURCE",
            help="A credential from '-' (a hidden prompt, or standard input), '@FILE' or 'env:NAME': a text, "
            "or a JSON object with its members; may be repeated.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", metavar="NAME=VALUE", help="The value of a setting; may be repeated."),
    ] = None,
    document: Annotated[
        str | None,
        typer.Option(
            "--document",
            metavar="FILE",
            help="The vendor's document, for a gateway that cannot fetch it; '-': standard input.",
        ),
    ] = None,
) -> None:
    """Enable a plugin: its provider, its credentials and the toolset of its name.

    An enabled one gets other settings or credentials, or the newest version; what is not given stays. On a
    terminal, credentials that are not given are asked for.
    """
    session = ctx.obj
    plugin = session.gateway.get(build_url_path("plugins", name)).json()
    credentials = _read_credentials(plugin, credential_env or (), credential or ())
    if sys.stdin.isatty() and document != "-":
        credentials |= _prompt_for_credentials(session, plugin, credentials)
    body: dict[str, Any] = {"settings": _read_settings(plugin, setting or ()), "credentials": credentials}
    if document is not None:
        body["document"] = read_text(document)
    found = session.gateway.send("PUT", build_url_path("plugins", name), json=body).json()
    _print(session, found)


@commands.command("disable", cls=GatewayCommand)
def disable(
    ctx: SessionContext,
    *,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Disable a plugin: delete its provider, its credentials and its toolset."""
    session = ctx.obj
    if not yes:
        confirm(f"Delete the provider and the toolset {name}, with their credentials?")
    session.gateway.send("DELETE", build_url_path("plugins", name))
    if session.output.is_structured:
        session.output.write_document({"disabled": name})
        return
    session.output.note(f"Disabled {name}.")


def _read_credentials(
    plugin: Mapping[str, Any], variables: Iterable[str], sources: Iterable[str]
) -> dict[str, Any]:
    """Return the credentials that are given, by slot; raise InputError."""
    slots = {one["slot"]: one["environment"] for one in plugin.get("credentials") or ()}
    credentials: dict[str, Any] = {}
    for written in variables:
        slot, mark, variable = written.rpartition("=")
        slot = slot if mark else _choose_slot(variable, slots, plugin["name"])
        if not os.environ.get(variable):
            raise InputError(f"The environment variable {variable} is not set.")
        credentials[slot] = _read_value(os.environ[variable])
    for written in sources:
        slot, mark, source = written.partition("=")
        if not mark or not slot:
            raise InputError("--credential: write SLOT=SOURCE.")
        credentials[slot] = _read_value(read_secret(source, prompt=f"Credential {slot}"))
    return credentials


def _choose_slot(variable: str, slots: Mapping[str, str], plugin: str) -> str:
    """Return the slot whose credential usually has this variable, or the only slot."""
    named = [slot for slot, environment in slots.items() if environment == variable] or list(slots)
    if len(named) != 1:
        names = ", ".join(slots) or "none"
        raise InputError(f"--credential-env {variable}: write SLOT={variable}; {plugin} takes: {names}.")
    return named[0]


def _prompt_for_credentials(
    session: ClientSession, plugin: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the credentials that a person types, of those that are required and neither given nor stored."""
    credentials: dict[str, Any] = {}
    for slot in plugin.get("credentials") or ():
        if slot["slot"] in given or slot["configured"] or not slot["required"]:
            continue
        session.output.note(f"{slot['title']}: {slot['help']} {slot['url']}".rstrip())
        credentials[slot["slot"]] = _read_value(read_secret("-", prompt=slot["title"]))
    return credentials


def _read_value(text: str) -> Any:
    """Return a credential: a JSON object where the text is one."""
    text = text.strip()
    if text.startswith("{"):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
    return text


def _read_settings(plugin: Mapping[str, Any], written: Sequence[str]) -> dict[str, Any]:
    """Return the settings that are given, with the types that they have; raise InputError."""
    types = {
        written_setting["name"]: written_setting["type"] for written_setting in plugin.get("settings") or ()
    }
    settings: dict[str, Any] = {}
    for written_setting in written:
        name, mark, text = written_setting.partition("=")
        if not mark or not name:
            raise InputError(f"--setting {written_setting!r}: write NAME=VALUE.")
        settings[name] = text
        if types.get(name) in ("integer", "boolean"):
            try:
                settings[name] = orjson.loads(text)
            except orjson.JSONDecodeError:
                raise InputError(f"--setting {name}: this is no {types[name]}.") from None
    return settings


def _print(session: ClientSession, plugin: Mapping[str, Any]) -> None:
    if session.output.is_structured:
        session.output.write_document(plugin)
        return
    names = ("name", "title", "description", "state", "version", "enabled_version", "homepage", "toolset")
    session.output.write_fields([(name.replace("_", " "), plugin.get(name)) for name in names])
    session.output.write_text("")
    session.output.write_table(("TOOL",), ((tool,) for tool in plugin.get("tools") or ()))
    if plugin.get("settings"):
        session.output.write_text("")
        rows = (
            (one["name"], one["value"] if one["value"] is not None else one["default"], one["title"])
            for one in plugin["settings"]
        )
        session.output.write_table(("SETTING", "VALUE", "TITLE"), rows)
    if plugin.get("credentials"):
        session.output.write_text("")
        stored = (
            (
                one["slot"],
                one["kind"],
                one["environment"],
                one["configured"],
                f"{one['help']} {one['url']}".strip(),
            )
            for one in plugin["credentials"]
        )
        session.output.write_table(("CREDENTIAL", "KIND", "ENVIRONMENT", "STORED", "WHERE TO GET IT"), stored)
    if not plugin.get("is_allowed", True):
        session.output.note(f"The operator has not allowed it: {plugin.get('requires_setting')} is not set.")
    if plugin.get("is_outdated"):
        session.output.note(f"The catalogue has version {plugin.get('version')}: enable it again.")
    for tool in plugin.get("missing_tools") or ():
        session.output.note(f"The document has no operation for the tool {tool}.")


def _build_row(item: Mapping[str, Any]) -> tuple[object, ...]:
    version = item["version"] if item["enabled_version"] is None else item["enabled_version"]
    shown = f"{version} ({item['version']} in the catalogue)" if item["is_outdated"] else version
    return (
        item["name"], item["state"], shown, len(item["tools"]), item["title"], shorten(item["description"]),
    )  # fmt: skip

"""`utcp-gateway providers`: the registered APIs."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from app.cli import provider_changes, provider_checks
from app.cli.completion import complete_provider_names
from app.cli.errors import InputError, ProblemResponse
from app.cli.imports import import_from_url, send_import, without_secrets
from app.cli.manifests import pack_manifests
from app.cli.output import shorten, write_json
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
from app.cli.reports import finish_import, show_pending
from app.cli.session import GatewayCommand, SessionContext
from app.cli.values import (
    Files,
    OverlayOption,
    RootOption,
    ServerOption,
    ServerVariableOption,
    build_url_path,
    confirm,
    read_bytes,
    read_server_options,
    read_text,
)
from app.core import exact_json

commands = typer.Typer(name="providers", help="Registered APIs.", no_args_is_help=True)
commands.add_typer(provider_checks.commands)
commands.add_typer(provider_changes.commands)

NameArgument = Annotated[str, typer.Argument(help="The provider.", autocompletion=complete_provider_names)]
PreviewOption = Annotated[bool, typer.Option("--preview", help="Show what would be done; change nothing.")]
StrictOption = Annotated[bool, typer.Option("--strict", help="Exit with 4 if an operation was skipped, too.")]
YAML_TYPE, JSON_TYPE, ZIP_TYPE = "application/yaml", "application/json", "application/zip"
TOML_TYPE = "application/toml"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How the gateway reads an OpenAPI document: its overlay, its root file and its external references."""

    overlay: str | None
    root: str | None
    follow_references: bool | None

    def build_for_url(self) -> dict[str, Any]:
        """Return the members of a `source` besides its URL."""
        follows = {} if self.follow_references is None else {"follow_references": self.follow_references}
        return {**self._read_texts(), **follows}

    def build_for_file(self) -> dict[str, str]:
        """Return the text fields of a multipart body; raise InputError for an option of URLs only."""
        if self.follow_references:
            raise InputError("--follow-references goes with a URL; send a zip archive of the files instead.")
        return self._read_texts()

    def _read_texts(self) -> dict[str, str]:
        overlay = None if self.overlay is None else read_text(self.overlay)
        return {key: text for key, text in (("root", self.root), ("overlay", overlay)) if text is not None}


@commands.command("add", cls=GatewayCommand)
def add(
    ctx: SessionContext,
    *,
    source: Annotated[
        str, typer.Argument(help="A URL, a file, a folder of ToolClad manifests, or '-' for standard input.")
    ],
    name: Annotated[str | None, typer.Option("--name", "-n", help="Its tools are called NAME.tool.")] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="The API's address, if its document has no full one.")
    ] = None,
    server: ServerOption = None,
    server_variable: ServerVariableOption = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="A tag for all its tools; may be repeated.")
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", help="The language of its texts, e.g. de.")
    ] = None,
    overlay: OverlayOption = None,
    root: RootOption = None,
    follow_references: Annotated[
        bool | None,
        typer.Option(
            "--follow-references/--no-follow-references",
            help="Fetch the files at its origin that a URL's document refers to; the default without a "
            "credential for the URL.",
        ),
    ] = None,
    redirect_origin: Annotated[
        str | None,
        typer.Option(
            "--redirect-origin",
            metavar="ORIGIN",
            help="The origin to which the URL redirects, and to which credentials may go, too.",
        ),
    ] = None,
    preview: PreviewOption = False,
    strict: StrictOption = False,
) -> None:
    """Register an API: an OpenAPI document, a UTCP manual, a UTCP provider, the configuration of an MCP
    client (`mcpServers`), or ToolClad manifests; the gateway detects which.

    The source is a URL that the gateway fetches (of a host alone, also its usual documents, such as
    /openapi.json, are tried), or a file that is sent unchanged; a zip archive may hold a
    document of several files, or several manifests. Those of a folder are sent as such an archive. Operations
    that cannot become tools are listed; the others are registered.
    """
    session = ctx.obj
    reading = ReadOptions(overlay, root, follow_references)
    path = "/providers/preview" if preview else "/providers"
    activity = f"{'Previewing' if preview else 'Registering'} {without_secrets(source)}"
    named = {"base_url": base_url, "redirect_origin": redirect_origin}
    options = {key: value for key, value in named.items() if value}
    options |= read_server_options(server, server_variable)
    settings: dict[str, Any] = {"options": options, "tags": tag}
    settings = {key: value for key, value in settings.items() if value}
    try:
        if source.lower().startswith(("https://", "http://")):
            settings |= {"language": language} if language else {}
            body = {**settings, "name": name, "source": {"url": source, **reading.build_for_url()}}
            result = import_from_url(session, path, activity=activity, body=body)
        else:
            content = pack_manifests(source) if Path(source).is_dir() else read_bytes(source)
            media_type = _guess_media_type(source, content)
            texts = {**reading.build_for_file(), **({"language": language} if language else {})}
            parts = [*_build_json_parts(settings), *_build_text_parts(texts)]
            upload: dict[str, Any] = {"content": content, "media_type": media_type}
            if parts:
                upload = {"files": [*parts, ("file", ("document", content, media_type))]}
            result = send_import(session, path, activity=activity, query={"name": name}, **upload)
    except ProblemResponse as error:
        errors = error.problem.get("errors") or ()
        if name is None and any(one.get("pointer") == "/name" for one in errors):
            error.hint = "name it with --name."
        raise
    finish_import(session, result, strict=strict)


@commands.command("import", cls=GatewayCommand)
def import_file(
    ctx: SessionContext,
    *,
    file: Annotated[str, typer.Argument(help="A providers.json; '-' for standard input.")],
    preview: PreviewOption = False,
    strict: StrictOption = False,
) -> None:
    """Register every entry of a providers.json (UTCP 0.x) or of manual_call_templates (1.x).

    Importing it again changes nothing. Exits with 4 if some entries failed, with 1 if all did.
    """
    session = ctx.obj
    content = read_bytes(file)
    try:
        orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{file} is not JSON: {error}.") from None
    path = "/providers/preview" if preview else "/providers"
    finish_import(
        session, send_import(session, path, content=content, activity=f"Importing {file}"), strict=strict
    )


@commands.command("list", cls=GatewayCommand)
def list_providers(
    ctx: SessionContext,
    *,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the registered providers."""
    session = ctx.obj
    paging = Paging(limit, everything, cursor, sort, q)
    show_list(
        session,
        "/providers",
        query={},
        paging=paging,
        columns=("NAME", "KIND", "TOOLS", "ENABLED", "ORIGINS", "DESCRIPTION"),
        row=_build_row,
        importance=("NAME", "TOOLS", "ENABLED", "ORIGINS", "KIND"),
    )


@commands.command("show", cls=GatewayCommand)
def show_provider(ctx: SessionContext, *, name: NameArgument) -> None:
    """Show a provider: the source of its tools, its credential slots, its pending changes."""
    session = ctx.obj
    provider = session.gateway.get(build_url_path("providers", name)).json()
    if session.output.is_structured:
        session.output.write_document(provider)
        return
    hidden = ("report", "credentials", "slots", "source", "pending")
    session.output.write_fields(
        (key.replace("_", " "), value) for key, value in provider.items() if key not in hidden
    )
    show_pending(session.output, provider)
    source = provider.get("source") or {}
    final_url = (provider.get("report") or {}).get("final_url")
    session.output.write_fields(
        [
            ("source", source.get("format")),
            ("fetched from", source.get("url")),
            ("redirects to", final_url),
        ]
    )
    session.output.write_fields([("credentials", [one["slot"] for one in provider["credentials"]])])
    for slot in provider["slots"]:
        if not slot["stored"]:
            session.output.note(
                f"No credential in slot {slot['slot']} yet: utcp-gateway credentials set {name} ..."
            )


@commands.command("refresh", cls=GatewayCommand)
def refresh(
    ctx: SessionContext,
    *,
    name: NameArgument,
    server: ServerOption = None,
    server_variable: ServerVariableOption = None,
    preview: PreviewOption = False,
) -> None:
    """Fetch and convert a provider's source again, and show the difference.

    Its server and the values of its variables stay as they are, unless others are given: these are stored,
    but not if the document does not have them.
    """
    session = ctx.obj
    options = read_server_options(server, server_variable)
    if preview:
        if options:
            raise InputError(
                "--preview goes with the stored server; leave out --server and --server-variable."
            )
        path = build_url_path("providers", name, "refresh", "preview")
        result = send_import(session, path, activity=f"Previewing a refresh of {name}")
        finish_import(session, {key: value for key, value in result.items() if key != "exists"})
        return
    before: dict[str, Any] = {}
    if options:
        stored = session.gateway.get(build_url_path("providers", name)).json()["options"]
        before = {option: stored.get(option) for option in options}
        if "server_variables" in options:
            options["server_variables"] = {
                **(stored.get("server_variables") or {}),
                **options["server_variables"],
            }
        session.gateway.send("PATCH", build_url_path("providers", name), json={"options": options})
    path = build_url_path("providers", name, "refresh")
    try:
        result = send_import(session, path, activity=f"Refreshing {name}")
    except ProblemResponse as error:
        if before and error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            session.gateway.send("PATCH", build_url_path("providers", name), json={"options": before})
        raise
    finish_import(session, result)


@commands.command("approve", cls=GatewayCommand)
def approve(
    ctx: SessionContext,
    *,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Approve the pending changes of refreshes: other origins, token URLs and security.

    Only what is shown is approved: if the provider changes in between, the gateway responds with 412.
    """
    session = ctx.obj
    response = session.gateway.get(build_url_path("providers", name))
    result = response.json()
    if not session.output.is_structured:
        show_pending(session.output, result)
    if not yes and result.get("pending"):
        if session.output.is_structured:
            write_json(result["pending"]["operations"], session.output.note)
        confirm("Approve these changes?")
    headers = {"If-Match": response.headers.get("etag", "*")}
    approved = session.gateway.send(
        "POST", build_url_path("providers", name, "approve"), headers=headers
    ).json()
    if session.output.is_structured:
        session.output.write_document(approved)
        return
    session.output.note(f"Approved. {name} calls {', '.join(approved['origins'])}.")


@commands.command("remove", cls=GatewayCommand)
def remove(
    ctx: SessionContext,
    *,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="The providers.", autocompletion=complete_provider_names),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove providers with their tools and credentials; their calls and events stay recorded."""
    session = ctx.obj
    paths = [build_url_path("providers", name) for name in names]
    if not yes:
        confirm(f"Remove {', '.join(names)} with all tools and credentials?")
    for path in paths:
        session.gateway.delete(path)
    if session.output.is_structured:
        session.output.write_document({"removed": names})
        return
    session.output.note(f"Removed {', '.join(names)}.")


def _build_row(provider: Mapping[str, Any]) -> tuple[object, ...]:
    members = ("name", "kind", "tool_count", "enabled", "origins")
    return (*(provider.get(member) for member in members), shorten(provider.get("description"), length=60))


def _guess_media_type(source: str, content: bytes) -> str:
    if content[:4] == b"PK\x03\x04":
        return ZIP_TYPE
    if source.endswith((".yaml", ".yml")):
        return YAML_TYPE
    if source.endswith(".toml"):
        return TOML_TYPE
    return JSON_TYPE if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else YAML_TYPE


def _build_json_parts(settings: Mapping[str, Any]) -> Files:
    return [(name, (None, exact_json.dumps(value), JSON_TYPE)) for name, value in settings.items()]


def _build_text_parts(texts: Mapping[str, str]) -> Files:
    return [(name, (None, text.encode(), "text/plain")) for name, text in texts.items()]

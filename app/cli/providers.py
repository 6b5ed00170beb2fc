"""`utcp-gateway providers`: the APIs that are registered."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
import typer

from app.cli.imports import send_import
from app.cli.outcome import BadInput, Refused
from app.cli.output import shortened
from app.cli.pages import Paging, collect, show
from app.cli.reports import finish, show_pending
from app.cli.session import Session, remote
from app.cli.values import path, read_bytes, read_text

commands = typer.Typer(name="providers", help="The APIs that are registered.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="The provider.")]
PreviewOption = Annotated[bool, typer.Option("--preview", help="Show what would be done; change nothing.")]
StrictOption = Annotated[bool, typer.Option("--strict", help="End with 4 if an operation was skipped, too.")]
YAML_TYPE, JSON_TYPE, ZIP_TYPE = "application/yaml", "application/json", "application/zip"
_TEXTS = ("root", "overlay")


@dataclass(frozen=True, slots=True)
class Reading:
    """How an OpenAPI document is read."""

    overlay: Annotated[
        str | None, typer.Option("--overlay", metavar="FILE", help="An OpenAPI Overlay 1.0 to lay over it.")
    ] = None
    root: Annotated[
        str | None, typer.Option("--root", metavar="PATH", help="The document in a zip that holds several.")
    ] = None
    follow_references: Annotated[
        bool, typer.Option("--follow-references", help="Fetch the files that a URL's document refers to.")
    ] = False

    def of_url(self) -> dict[str, Any]:
        """The members of a `source`."""
        return {**self._texts(), **({"follow_references": True} if self.follow_references else {})}

    def of_file(self) -> dict[str, Any]:
        """The parts of a multipart body; `BadInput` for what goes with a URL only."""
        if self.follow_references:
            raise BadInput("--follow-references goes with a URL; send a zip archive of the files instead.")
        return self._texts()

    def _texts(self) -> dict[str, Any]:
        overlay = None if self.overlay is None else read_text(self.overlay)
        return {key: text for key, text in (("root", self.root), ("overlay", overlay)) if text is not None}


@commands.command("add")
@remote
def add(
    session: Session,
    *,
    source: Annotated[str, typer.Argument(help="A URL, a file, or '-' for standard input.")],
    name: Annotated[str | None, typer.Option("--name", "-n", help="Its tools are called NAME.tool.")] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="The API's address, if its document has no full one.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="A tag for all its tools; may be repeated.")
    ] = None,
    reading: Reading,
    preview: PreviewOption = False,
    strict: StrictOption = False,
) -> None:
    """Register an API: an OpenAPI document, a UTCP manual or a UTCP provider, told apart by the gateway.

    The source is a URL that the gateway fetches, or a file that is sent as it is; a zip archive may hold a
    document of several files. Operations that cannot become tools are listed and do not keep the others out.
    """
    target = "/providers/preview" if preview else "/providers"
    what = f"{'Previewing' if preview else 'Registering'} {_shown(source)}"
    settings: dict[str, Any] = {"options": {"base_url": base_url} if base_url else None, "tags": tag}
    settings = {key: value for key, value in settings.items() if value}
    try:
        if source.lower().startswith(("https://", "http://")):
            body = {**settings, "name": name, "source": {"url": source, **reading.of_url()}}
            answer = send_import(session, target, json=body, what=what)
        else:
            content = read_bytes(source)
            media_type = _media_type(source, content)
            fields = {**settings, **reading.of_file()}
            if fields:
                content, media_type = _multipart(fields, content, media_type)
            answer = send_import(
                session, target, content=content, media_type=media_type, query={"name": name}, what=what
            )
    except Refused as refused:
        if name is None and any(
            fault.get("pointer") == "/name" for fault in refused.problem.get("errors") or ()
        ):
            refused.hint = "name it with --name."
        raise
    finish(session, answer, strict=strict)


@commands.command("import")
@remote
def import_file(
    session: Session,
    *,
    file: Annotated[str, typer.Argument(help="A providers.json; '-' for standard input.")],
    preview: PreviewOption = False,
    strict: StrictOption = False,
) -> None:
    """Register every entry of a providers.json (UTCP 0.x) or of manual_call_templates (1.x).

    Doing it again is harmless. Ends with 4 if some entries failed, with 1 if all did.
    """
    content = read_bytes(file)
    try:
        orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{file} is not JSON: {error}.") from None
    target = "/providers/preview" if preview else "/providers"
    finish(session, send_import(session, target, content=content, what=f"Importing {file}"), strict=strict)


@commands.command("list")
@remote
def list_providers(session: Session, *, paging: Paging) -> None:
    """List the providers."""
    page = collect(session, "/providers", query={}, paging=paging)
    show(session, page, columns=("NAME", "KIND", "TOOLS", "ENABLED", "ORIGINS", "DESCRIPTION"), row=_row)


@commands.command("show")
@remote
def show_provider(session: Session, *, name: NameArgument) -> None:
    """Show a provider: where its tools come from, what it needs, what is stored."""
    found = session.gateway.get(path("providers", name)).json()
    if session.output.json:
        session.output.document(found)
        return
    hidden = ("report", "credentials", "slots", "source", "pending")
    session.output.facts((key.replace("_", " "), value) for key, value in found.items() if key not in hidden)
    show_pending(session.output, found)
    source = found.get("source") or {}
    session.output.facts([("source", source.get("format")), ("fetched from", source.get("url"))])
    session.output.facts([("credentials", [one["slot"] for one in found["credentials"]])])
    for slot in found["slots"]:
        if not slot["stored"]:
            session.output.note(
                f"No credential in slot {slot['slot']} yet: utcp-gateway credentials set {name} ..."
            )


@commands.command("refresh")
@remote
def refresh(session: Session, *, name: NameArgument) -> None:
    """Fetch and convert a provider's source again, and show the difference."""
    target = path("providers", name, "refresh")
    finish(session, send_import(session, target, what=f"Refreshing {name}"))


@commands.command("approve")
@remote
def approve(
    session: Session,
    *,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Put to use what refreshes held back: other origins, token URLs and security.

    What is shown is what is approved: if something changes in between, the gateway refuses.
    """
    answer = session.gateway.get(path("providers", name))
    found = answer.json()
    if not session.output.json:
        show_pending(session.output, found)
    if not yes and found.get("pending"):
        typer.confirm("Approve of this?", abort=True, err=True)
    headers = {"If-Match": answer.headers.get("etag", "*")}
    approved = session.gateway.send("POST", path("providers", name, "approve"), headers=headers).json()
    if session.output.json:
        session.output.document(approved)
        return
    session.output.note(f"Approved. {name} calls {', '.join(approved['origins'])}.")


@commands.command("remove")
@remote
def remove(
    session: Session,
    *,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The providers.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove providers with their tools and credentials; only the audit remembers them."""
    targets = [path("providers", name) for name in names]
    if not yes:
        typer.confirm(f"Remove {', '.join(names)} with all tools and credentials?", abort=True, err=True)
    for target in targets:
        session.gateway.delete(target)
    if session.output.json:
        session.output.document({"removed": names})
        return
    session.output.note(f"Removed {', '.join(names)}.")


def _row(provider: Mapping[str, Any]) -> tuple[object, ...]:
    members = ("name", "kind", "tool_count", "enabled", "origins")
    return (*(provider.get(member) for member in members), shortened(provider.get("description"), length=60))


def _shown(source: str) -> str:
    """The source without what may be secret in a URL: user, password and query."""
    start, mark, rest = source.partition("://")
    host, slash, path_and_query = rest.partition("/")
    return f"{start}{mark}{host.rpartition('@')[2]}{slash}{path_and_query}".partition("?")[0]


def _media_type(source: str, content: bytes) -> str:
    if content[:4] == b"PK\x03\x04":
        return ZIP_TYPE
    if source.endswith((".yaml", ".yml")):
        return YAML_TYPE
    return JSON_TYPE if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else YAML_TYPE


def _multipart(settings: Mapping[str, Any], content: bytes, media_type: str) -> tuple[bytes, str]:
    """multipart/form-data (RFC 7578): the settings as JSON fields, the document as the file."""
    boundary = secrets.token_hex(16)
    parts = [
        (f'name="{key}"', "text/plain", str(value).encode())
        if key in _TEXTS
        else (f'name="{key}"', JSON_TYPE, orjson.dumps(value))
        for key, value in settings.items()
    ]
    parts.append(('name="file"; filename="document"', media_type, content))
    body = b"".join(
        f"--{boundary}\r\nContent-Disposition: form-data; {how}\r\nContent-Type: {kind}\r\n\r\n".encode()
        + value
        + b"\r\n"
        for how, kind, value in parts
    )
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"

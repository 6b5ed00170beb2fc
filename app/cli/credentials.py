"""`utcp-gateway credentials`: credentials for the APIs of providers. Secrets are never read back."""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from app.cli.errors import InputError, ProblemResponse
from app.cli.session import ClientSession, GatewayCommand, SessionContext
from app.cli.values import SECRET_HELP, read_secret, url_path

commands = typer.Typer(
    name="credentials", help="Credentials for the APIs of providers.", no_args_is_help=True
)


class CredentialKind(StrEnum):
    """The kinds of credentials that can be stored."""

    API_KEY = "api_key"
    BASIC = "basic"
    BEARER = "bearer"
    OAUTH2 = "oauth2"
    STATIC = "static"


#: The member of the body that --secret fills.
_SECRET_FIELD = {
    CredentialKind.API_KEY: "value",
    CredentialKind.BASIC: "password",
    CredentialKind.BEARER: "token",
    CredentialKind.OAUTH2: "client_secret",
    CredentialKind.STATIC: "value",
}
#: The options of each kind (True: required).
_FIELDS: Mapping[CredentialKind, Mapping[str, bool]] = {
    CredentialKind.API_KEY: {"location": False, "name": False},
    CredentialKind.BASIC: {"username": True},
    CredentialKind.BEARER: {},
    CredentialKind.OAUTH2: {
        "client_id": True,
        "token_url": False,
        "scope": False,
        "audience": False,
        "resource": False,
    },
    CredentialKind.STATIC: {"location": True, "name": True},
}

ProviderArgument = Annotated[str, typer.Argument(help="The provider.")]
SlotArgument = Annotated[str, typer.Argument(help="The slot, as `credentials list` names it.")]


@dataclass(frozen=True, slots=True)
class CredentialFields:
    """The options of a credential that are not secret, each for some kinds only."""

    location: str | None
    name: str | None
    username: str | None
    client_id: str | None
    token_url: str | None
    scope: str | None
    audience: str | None
    resource: str | None

    def body(self, kind: CredentialKind) -> dict[str, Any]:
        """Return the fields that were given; raise InputError for one that `kind` lacks or does not have."""
        allowed = _FIELDS[kind]
        given = asdict(self)
        for name, value in given.items():
            option = "--" + name.replace("_", "-")
            if value is not None and name not in allowed:
                raise InputError(f"{option} is no option of a credential of kind {kind.value}.")
            if value is None and allowed.get(name):
                raise InputError(f"A credential of kind {kind.value} needs {option}.")
        return {name: value for name, value in given.items() if value is not None}


@commands.command("set", cls=GatewayCommand)
def set_credential(
    ctx: SessionContext,
    *,
    provider: ProviderArgument,
    slot: SlotArgument,
    kind: Annotated[CredentialKind, typer.Option("--kind", "-k", help="Its kind.")],
    secret: Annotated[str, typer.Option("--secret", metavar="SOURCE", help=SECRET_HELP)] = "-",
    location: Annotated[
        str | None, typer.Option(help="api_key: header, query, cookie; static: header, query, userinfo.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="api_key, static: name of the header or parameter.")
    ] = None,
    username: Annotated[str | None, typer.Option(help="basic: the user name.")] = None,
    client_id: Annotated[str | None, typer.Option(help="oauth2: the client id.")] = None,
    token_url: Annotated[str | None, typer.Option(help="oauth2: the token endpoint.")] = None,
    scope: Annotated[str | None, typer.Option(help="oauth2: the scopes to request.")] = None,
    audience: Annotated[str | None, typer.Option(help="oauth2: the audience to request.")] = None,
    resource: Annotated[str | None, typer.Option(help="oauth2: the resource to request.")] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="An origin it may be sent to; may be repeated. Default: those of the stored credential, "
            "for the first one those of the registration."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, wherever the credential is to be sent.")
    ] = False,
) -> None:
    """Store a credential; it replaces the stored one of the slot.

    Where it would be sent to other origins than the stored one (the first one: than the provider's source),
    the command shows them and asks first; without a terminal it fails then, unless --yes is given.

    The secret is the key, the password, the token or the client secret; it may contain ${NAME} of a variable.
    A credential of kind static replaces a value of a call template; the API accepts several values.
    """
    fields = CredentialFields(location, name, username, client_id, token_url, scope, audience, resource)
    session = ctx.obj
    secret_field = _SECRET_FIELD[kind]
    body: dict[str, Any] = {"kind": kind.value, **fields.body(kind)}
    body[secret_field] = read_secret(
        secret, prompt=f"{secret_field.replace('_', ' ').capitalize()} of {slot}"
    )
    if kind is CredentialKind.STATIC:
        body = {"kind": "static", "values": [{name: body[name] for name in ("location", "name", "value")}]}
    origins = _confirm_origins(
        session, provider, slot, _CredentialDestination(allow_origin or [], token_url, yes)
    )
    if origins:
        # Exactly what was shown is stored, whatever changes in between.
        body["allowed_origins"] = origins
    stored = session.gateway.send(
        "PUT", url_path("providers", provider, "credentials", slot), json=body
    ).json()
    if session.output.json:
        session.output.document(stored or {"slot": slot, "kind": kind.value})
        return
    session.output.note(f"Stored the {kind.value} credential of {provider} in slot {slot}.")
    allowed = (stored or {}).get("allowed_origins")
    if allowed:
        session.output.note("It is sent to " + ", ".join(allowed) + " and nowhere else.")


@commands.command("list", cls=GatewayCommand)
def list_credentials(ctx: SessionContext, *, provider: ProviderArgument) -> None:
    """List a provider's slots, and what is stored for each; never a secret."""
    session = ctx.obj
    found = session.gateway.get(url_path("providers", provider)).json()
    slots = found.get("slots") or []
    stored = {credential["slot"]: credential for credential in found.get("credentials") or []}
    if session.output.json:
        session.output.document({"slots": slots, "credentials": list(stored.values())})
        return
    declared = {slot["slot"]: slot for slot in slots}
    rows = [
        _row(name, declared.get(name, {}), stored.get(name))
        for name in [*declared, *(stored.keys() - declared)]
    ]
    session.output.table(("SLOT", "KIND", "STORED", "FINGERPRINT", "SENT TO", "LAST USED"), rows)


@commands.command("remove", cls=GatewayCommand)
def remove(ctx: SessionContext, *, provider: ProviderArgument, slot: SlotArgument) -> None:
    """Remove a credential: it is sent no more."""
    session = ctx.obj
    session.gateway.delete(url_path("providers", provider, "credentials", slot))
    if session.output.json:
        session.output.document({"removed": slot})
        return
    session.output.note(f"Removed the credential of {provider} in slot {slot}.")


@dataclass(frozen=True, slots=True)
class _CredentialDestination:
    """The origins and the token URL that the command line gives; with `yes` nobody is asked."""

    origins: list[str]
    token_url: str | None
    yes: bool


def _confirm_origins(
    session: ClientSession, provider: str, slot: str, given: _CredentialDestination
) -> list[str]:
    """Return the origins to bind the credential to, [] to leave them to the gateway.

    Raise InputError where they must be confirmed and there is no terminal, typer.Abort for a no.
    """
    known = _known_destination(session, provider, slot)
    if known is None:
        shown = ["This key may not read where it was sent so far (scope providers:read)."]
        origins = given.origins
    else:
        origins = given.origins or list(known["origins"])
        shown = _differences(known, origins, given.token_url)
    if shown and not given.yes:
        for line in shown:
            session.output.note(line)
        if not sys.stdin.isatty():
            raise InputError(" ".join([*shown, "Nothing was stored; give --yes if that is right."]))
        typer.confirm("Store it?", abort=True, err=True)
    return origins


def _known_destination(session: ClientSession, provider: str, slot: str) -> Mapping[str, Any] | None:
    """Return the gateway's `destinations` entry of a slot, None where this key lacks the scope for it."""
    try:
        found = session.gateway.get(url_path("providers", provider, "credentials")).json()
    except ProblemResponse as error:
        if error.status == 403:
            return None
        raise
    nothing = {"origins": [], "registered": [], "stored": False, "token_url": None}
    return next((one for one in found.get("destinations", ()) if one["slot"] == slot), nothing)


def _differences(known: Mapping[str, Any], origins: list[str], token_url: str | None) -> list[str]:
    """Return sentences on the destinations that are new."""
    before = known["origins"] if known["stored"] else known["registered"]
    before_normalized = {_normalized(origin) for origin in before}
    lines: list[str] = []
    if new := [origin for origin in origins if _normalized(origin) not in before_normalized]:
        what = "The stored credential is sent to" if known["stored"] else "The provider's source is at"
        lines.append(f"The credential would be sent to {', '.join(new)}.")
        lines.append(f"{what} {', '.join(before)}." if before else "No origin of the provider is known.")
    if token_url and known["token_url"] and token_url != known["token_url"]:
        lines.append(f"The client secret would be sent to {token_url} instead of {known['token_url']}.")
    return lines


def _normalized(origin: str) -> str:
    """Return an origin in a common spelling; a rarer one costs one question more."""
    return origin.strip().lower().removesuffix("/")


def _row(name: str, slot: Mapping[str, Any], stored: Mapping[str, Any] | None) -> tuple[object, ...]:
    if stored is None:
        return (name, slot.get("kind"), "no", "", "", "")
    return (
        name,
        stored.get("kind"),
        "yes",
        stored.get("fingerprint"),
        stored.get("allowed_origins"),
        stored.get("last_used_at"),
    )

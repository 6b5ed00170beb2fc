"""`utcp-gateway credentials`: what is sent to a provider's API. Secrets go in and never come out."""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from app.cli.outcome import BadInput, Refused
from app.cli.session import Session, remote
from app.cli.values import SECRET_HELP, path, read_secret

commands = typer.Typer(name="credentials", help="What is sent to a provider's API.", no_args_is_help=True)


class Kind(StrEnum):
    """The kinds of credentials that can be stored."""

    API_KEY = "api_key"
    BASIC = "basic"
    BEARER = "bearer"
    OAUTH2 = "oauth2"
    STATIC = "static"


#: The member of the body that --secret fills.
_SECRET_FIELD = {
    Kind.API_KEY: "value",
    Kind.BASIC: "password",
    Kind.BEARER: "token",
    Kind.OAUTH2: "client_secret",
    Kind.STATIC: "value",
}
#: The options that each kind takes (True: must be given).
_FIELDS: Mapping[Kind, Mapping[str, bool]] = {
    Kind.API_KEY: {"location": False, "name": False},
    Kind.BASIC: {"username": True},
    Kind.BEARER: {},
    Kind.OAUTH2: {
        "client_id": True,
        "token_url": False,
        "scope": False,
        "audience": False,
        "resource": False,
    },
    Kind.STATIC: {"location": True, "name": True},
}

ProviderArgument = Annotated[str, typer.Argument(help="The provider.")]
SlotArgument = Annotated[str, typer.Argument(help="The slot, as `credentials list` names it.")]


@dataclass(frozen=True, slots=True)
class Fields:
    """The options that are not secret; each belongs to one kind."""

    location: Annotated[
        str | None, typer.Option(help="api_key: header, query, cookie; static: header, query, userinfo.")
    ] = None
    name: Annotated[str | None, typer.Option(help="api_key, static: of the header or parameter.")] = None
    username: Annotated[str | None, typer.Option(help="basic: the user name.")] = None
    client_id: Annotated[str | None, typer.Option(help="oauth2: the client id.")] = None
    token_url: Annotated[str | None, typer.Option(help="oauth2: the token endpoint.")] = None
    scope: Annotated[str | None, typer.Option(help="oauth2: the scopes to ask for.")] = None
    audience: Annotated[str | None, typer.Option(help="oauth2: the audience to ask for.")] = None
    resource: Annotated[str | None, typer.Option(help="oauth2: the resource to ask for.")] = None

    def of(self, kind: Kind) -> dict[str, Any]:
        """What was given; `BadInput` for an option that the kind does not take, or that it lacks."""
        takes = _FIELDS[kind]
        given = asdict(self)
        for name, value in given.items():
            option = "--" + name.replace("_", "-")
            if value is not None and name not in takes:
                raise BadInput(f"{option} does not belong to a credential of kind {kind.value}.")
            if value is None and takes.get(name):
                raise BadInput(f"A credential of kind {kind.value} needs {option}.")
        return {name: value for name, value in given.items() if value is not None}


@commands.command("set")
@remote
def set_credential(
    session: Session,
    *,
    provider: ProviderArgument,
    slot: SlotArgument,
    kind: Annotated[Kind, typer.Option("--kind", "-k", help="What it is.")],
    secret: Annotated[str, typer.Option("--secret", metavar="SOURCE", help=SECRET_HELP)] = "-",
    fields: Fields,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="Where it may be sent; may be repeated. Default: where the stored one goes, of the first "
            "one the origin registered."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, wherever the credential is to be sent.")
    ] = False,
) -> None:
    """Store a credential; one that is there already is replaced.

    If it would be sent elsewhere than the stored one (or, of the first one, than the provider's source), that
    is shown and asked about first; without a terminal, the command fails then unless --yes is given.

    The secret is the key, the password, the token or the client secret; it may hold ${NAME} of a variable.
    Of kind static, which replaces what a call template held, one value is stored; the API takes several.
    """
    secret_field = _SECRET_FIELD[kind]
    body: dict[str, Any] = {"kind": kind.value, **fields.of(kind)}
    body[secret_field] = read_secret(
        secret, prompt=f"{secret_field.replace('_', ' ').capitalize()} of {slot}"
    )
    if kind is Kind.STATIC:
        body = {"kind": "static", "values": [{name: body[name] for name in ("location", "name", "value")}]}
    confirmed = _confirmed(session, provider, slot, _Wanted(allow_origin or [], fields.token_url, yes))
    if confirmed:
        # What was shown is what is stored, whatever changes in between.
        body["allowed_origins"] = confirmed
    stored = session.gateway.send("PUT", path("providers", provider, "credentials", slot), json=body).json()
    if session.output.json:
        session.output.document(stored or {"slot": slot, "kind": kind.value})
        return
    session.output.note(f"Stored the {kind.value} credential of {provider} in slot {slot}.")
    origins = (stored or {}).get("allowed_origins")
    if origins:
        session.output.note("It is sent to " + ", ".join(origins) + " and nowhere else.")


@commands.command("list")
@remote
def list_credentials(session: Session, *, provider: ProviderArgument) -> None:
    """List a provider's slots, and what is stored for each; never a secret."""
    found = session.gateway.get(path("providers", provider)).json()
    slots = found.get("slots") or []
    stored = {credential["slot"]: credential for credential in found.get("credentials") or []}
    if session.output.json:
        session.output.document({"slots": slots, "credentials": list(stored.values())})
        return
    wanted = {slot["slot"]: slot for slot in slots}
    rows = [
        _row(name, wanted.get(name, {}), stored.get(name)) for name in [*wanted, *(stored.keys() - wanted)]
    ]
    session.output.table(("SLOT", "KIND", "STORED", "FINGERPRINT", "SENT TO", "LAST USED"), rows)


@commands.command("remove")
@remote
def remove(session: Session, *, provider: ProviderArgument, slot: SlotArgument) -> None:
    """Remove a credential: from now on it is not sent."""
    session.gateway.delete(path("providers", provider, "credentials", slot))
    if session.output.json:
        session.output.document({"removed": slot})
        return
    session.output.note(f"Removed the credential of {provider} in slot {slot}.")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Where the command line wants a credential to be sent; `yes`: nobody is asked."""

    origins: list[str]
    token_url: str | None
    yes: bool


def _confirmed(session: Session, provider: str, slot: str, wanted: _Wanted) -> list[str]:
    """The origins that the credential is bound to, [] where the gateway is to say.

    Raises `BadInput` where they must be confirmed and nobody can, and typer's Abort where they are not.
    """
    known = _destination(session, provider, slot)
    if known is None:
        shown = ["This key may not see where it was sent so far (scope providers:read)."]
        origins = wanted.origins
    else:
        origins = wanted.origins or list(known["origins"])
        shown = _differences(known, origins, wanted.token_url)
    if shown and not wanted.yes:
        for line in shown:
            session.output.note(line)
        if not sys.stdin.isatty():
            raise BadInput(" ".join([*shown, "Nothing was stored; give --yes if that is right."]))
        typer.confirm("Store it?", abort=True, err=True)
    return origins


def _destination(session: Session, provider: str, slot: str) -> Mapping[str, Any] | None:
    """What the gateway says of the slot's next credential, None where this key may not see that."""
    try:
        found = session.gateway.get(path("providers", provider, "credentials")).json()
    except Refused as refused:
        if refused.status == 403:
            return None
        raise
    nothing = {"origins": [], "registered": [], "stored": False, "token_url": None}
    return next((one for one in found.get("destinations", ()) if one["slot"] == slot), nothing)


def _differences(known: Mapping[str, Any], origins: list[str], token_url: str | None) -> list[str]:
    """Sentences on the destinations that are new."""
    before = known["origins"] if known["stored"] else known["registered"]
    plain = {_plain(origin) for origin in before}
    lines: list[str] = []
    if new := [origin for origin in origins if _plain(origin) not in plain]:
        what = "The stored credential is sent to" if known["stored"] else "The provider's source lies at"
        lines.append(f"The credential would be sent to {', '.join(new)}.")
        lines.append(f"{what} {', '.join(before)}." if before else "No origin of the provider is known.")
    if token_url and known["token_url"] and token_url != known["token_url"]:
        lines.append(f"The client secret would be sent to {token_url} instead of {known['token_url']}.")
    return lines


def _plain(origin: str) -> str:
    """An origin in one spelling, for the usual ones; of another the worst is a question too many."""
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

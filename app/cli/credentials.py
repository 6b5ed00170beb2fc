"""`utcp-gateway credentials`: credentials for the APIs of providers. Secrets are never read back."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from app.cli.completion import complete_provider_names
from app.cli.errors import InputError, ProblemResponse
from app.cli.session import ClientSession, GatewayCommand, SessionContext
from app.cli.values import SECRET_HELP, build_url_path, confirm, read_secret, read_text

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
    AWS_SIGV4 = "aws_sigv4"
    HMAC = "hmac"
    DIGEST = "digest"
    GOOGLE_SERVICE_ACCOUNT = "google_service_account"


#: The member of the body that --secret fills.
_SECRET_FIELD = {
    CredentialKind.API_KEY: "value",
    CredentialKind.BASIC: "password",
    CredentialKind.BEARER: "token",
    CredentialKind.OAUTH2: "client_secret",
    CredentialKind.STATIC: "value",
    CredentialKind.AWS_SIGV4: "secret_access_key",
    CredentialKind.HMAC: "secret",
    CredentialKind.DIGEST: "password",
    CredentialKind.GOOGLE_SERVICE_ACCOUNT: "key",
}
#: The same for the grants of kind oauth2.
_GRANT_SECRET = {"refresh_token": "refresh_token", "jwt_bearer": "private_key"}
#: The options of each kind (True: required).
_FIELDS: Mapping[CredentialKind, Mapping[str, bool]] = {
    CredentialKind.API_KEY: {"location": False, "name": False},
    CredentialKind.BASIC: {"username": True},
    CredentialKind.BEARER: {"scheme": False},
    CredentialKind.OAUTH2: {
        "client_id": False,
        "token_url": False,
        "metadata_url": False,
        "scope": False,
        "audience": False,
        "resource": False,
        "grant_type": False,
        "token_endpoint_auth_method": False,
        "key_id": False,
        "issuer": False,
        "subject": False,
    },
    CredentialKind.STATIC: {"location": True, "name": True},
    CredentialKind.AWS_SIGV4: {"access_key_id": True, "region": True, "service": True},
    CredentialKind.HMAC: {"key_id": False},
    CredentialKind.DIGEST: {"username": True},
    CredentialKind.GOOGLE_SERVICE_ACCOUNT: {"scope": False, "subject": False},
}

ProviderArgument = Annotated[
    str, typer.Argument(help="The provider.", autocompletion=complete_provider_names)
]
SlotArgument = Annotated[str, typer.Argument(help="The slot, as `credentials list` names it.")]


@dataclass(frozen=True, slots=True)
class CredentialFields:
    """The options of a credential that are not secret, each for some kinds only."""

    location: str | None
    name: str | None
    scheme: str | None
    username: str | None
    client_id: str | None
    token_url: str | None
    metadata_url: str | None
    scope: str | None
    audience: str | None
    resource: str | None
    grant_type: str | None
    token_endpoint_auth_method: str | None
    key_id: str | None
    issuer: str | None
    subject: str | None
    access_key_id: str | None
    region: str | None
    service: str | None

    def build_body(self, kind: CredentialKind) -> dict[str, Any]:
        """Return the fields that are set; raise InputError where `kind` requires another one or lacks one."""
        allowed = _FIELDS[kind]
        options = asdict(self)
        for name, value in options.items():
            option = "--" + name.replace("_", "-")
            if value is not None and name not in allowed:
                raise InputError(f"{option} is not an option of a credential of kind {kind.value}.")
            if value is None and allowed.get(name):
                raise InputError(f"A credential of kind {kind.value} needs {option}.")
        if kind is CredentialKind.OAUTH2 and self.client_id is None and self.grant_type != "jwt_bearer":
            raise InputError("A credential of kind oauth2 needs --client-id.")
        return {name: value for name, value in options.items() if value is not None}

    def get_secret_field(self, kind: CredentialKind) -> str:
        """Return the member of the body that --secret fills."""
        if kind is CredentialKind.OAUTH2 and self.token_endpoint_auth_method == "private_key_jwt":
            return _GRANT_SECRET.get(self.grant_type or "", "private_key")
        if kind is CredentialKind.OAUTH2:
            return _GRANT_SECRET.get(self.grant_type or "", _SECRET_FIELD[kind])
        return _SECRET_FIELD[kind]


@dataclass(frozen=True, slots=True)
class _OtherSecrets:
    """The sources of secrets beside --secret, and the file of an HMAC recipe."""

    client_secret: str | None
    private_key: str | None
    session_token: str | None
    recipe: str | None

    def build_body(self, kind: CredentialKind) -> dict[str, Any]:
        """Return the members that they give; raise InputError for one that `kind` does not have."""
        kinds = {
            "client_secret": CredentialKind.OAUTH2,
            "private_key": CredentialKind.OAUTH2,
            "session_token": CredentialKind.AWS_SIGV4,
            "recipe": CredentialKind.HMAC,
        }
        members: dict[str, Any] = {}
        for name, source in asdict(self).items():
            if source is None:
                continue
            if kinds[name] is not kind:
                option = "--" + name.replace("_", "-")
                raise InputError(f"{option} is not an option of a credential of kind {kind.value}.")
            if name == "recipe":
                members |= _read_recipe(source)
            else:
                members[name] = read_secret(source, prompt=name.replace("_", " ").capitalize())
        return members


def _read_recipe(source: str) -> dict[str, Any]:
    """Return the members of an HMAC recipe; raise InputError for what is no JSON object."""
    try:
        recipe = json.loads(
            source if source.lstrip().startswith("{") else read_text(source.removeprefix("@"))
        )
    except ValueError:
        recipe = None
    if not isinstance(recipe, dict):
        raise InputError("--recipe takes a JSON object, or a file that holds one.")
    return recipe


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
    scheme: Annotated[
        str | None, typer.Option(help="bearer: the authentication scheme, where it is not Bearer.")
    ] = None,
    username: Annotated[str | None, typer.Option(help="basic, digest: the user name.")] = None,
    client_id: Annotated[str | None, typer.Option(help="oauth2: the client id.")] = None,
    token_url: Annotated[str | None, typer.Option(help="oauth2: the token endpoint.")] = None,
    metadata_url: Annotated[
        str | None, typer.Option(help="oauth2: where the token endpoint is found, in place of --token-url.")
    ] = None,
    scope: Annotated[
        str | None, typer.Option(help="oauth2, google_service_account: the scopes to request.")
    ] = None,
    audience: Annotated[str | None, typer.Option(help="oauth2: the audience to request.")] = None,
    resource: Annotated[str | None, typer.Option(help="oauth2: the resource to request.")] = None,
    grant_type: Annotated[
        str | None, typer.Option(help="oauth2: client_credentials (default), refresh_token or jwt_bearer.")
    ] = None,
    token_endpoint_auth_method: Annotated[
        str | None,
        typer.Option(help="oauth2: client_secret_basic, client_secret_post, private_key_jwt or none."),
    ] = None,
    client_secret: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="oauth2: the client secret, where --secret is another one."),
    ] = None,
    private_key: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="oauth2: a private key, where --secret is another one."),
    ] = None,
    key_id: Annotated[str | None, typer.Option(help="hmac, oauth2: the id of the key.")] = None,
    issuer: Annotated[str | None, typer.Option(help="oauth2: the issuer of the assertion.")] = None,
    subject: Annotated[
        str | None, typer.Option(help="oauth2, google_service_account: the subject of the assertion.")
    ] = None,
    access_key_id: Annotated[str | None, typer.Option(help="aws_sigv4: the id of the access key.")] = None,
    session_token: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="aws_sigv4: the token of temporary credentials.")
    ] = None,
    region: Annotated[str | None, typer.Option(help="aws_sigv4: the region.")] = None,
    service: Annotated[str | None, typer.Option(help="aws_sigv4: the signing name of the service.")] = None,
    recipe: Annotated[
        str | None, typer.Option(metavar="JSON|FILE", help="hmac: how requests are signed.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="An origin it may be sent to; may be repeated. Default: those of the stored credential, "
            "for the first one those of the registration."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation of new destinations.")
    ] = False,
) -> None:
    """Store a credential; it replaces the stored one of the slot.

    Where it would be sent to other origins than the stored one (the first one: than the provider's source),
    the command shows them and asks for confirmation; without a terminal it fails, unless --yes is given.

    The secret is the key, the password, the token or the client secret; it may contain ${NAME} of a variable.
    With --grant-type refresh_token it is the refresh token, with jwt_bearer and private_key_jwt the private
    key, of a Google service account its key file (--secret @key.json).
    A credential of kind static replaces a value of a call template; the API accepts several values.
    """
    fields = CredentialFields(
        location=location,
        name=name,
        scheme=scheme,
        username=username,
        client_id=client_id,
        token_url=token_url,
        metadata_url=metadata_url,
        scope=scope,
        audience=audience,
        resource=resource,
        grant_type=grant_type,
        token_endpoint_auth_method=token_endpoint_auth_method,
        key_id=key_id,
        issuer=issuer,
        subject=subject,
        access_key_id=access_key_id,
        region=region,
        service=service,
    )
    session = ctx.obj
    secret_field = fields.get_secret_field(kind)
    others = _OtherSecrets(client_secret, private_key, session_token, recipe)
    body: dict[str, Any] = {"kind": kind.value, **fields.build_body(kind), **others.build_body(kind)}
    body[secret_field] = read_secret(
        secret, prompt=f"{secret_field.replace('_', ' ').capitalize()} of {slot}"
    )
    if kind is CredentialKind.STATIC:
        body = {"kind": "static", "values": [{name: body[name] for name in ("location", "name", "value")}]}
    origins = _confirm_origins(
        session, provider, slot, _CredentialDestination(allow_origin or [], token_url or metadata_url, yes)
    )
    if origins:
        # Exactly what was shown is stored, whatever changes in between.
        body["allowed_origins"] = origins
    stored = session.gateway.send(
        "PUT", build_url_path("providers", provider, "credentials", slot), json=body
    ).json()
    if session.output.is_structured:
        session.output.write_document(stored or {"slot": slot, "kind": kind.value})
        return
    session.output.note(f"Stored the {kind.value} credential of {provider} in slot {slot}.")
    allowed = (stored or {}).get("allowed_origins")
    if allowed:
        session.output.note("It is sent to " + ", ".join(allowed) + " and nowhere else.")


@commands.command("list", cls=GatewayCommand)
def list_credentials(ctx: SessionContext, *, provider: ProviderArgument) -> None:
    """List a provider's slots, and what is stored for each; never a secret."""
    session = ctx.obj
    provider_state = session.gateway.get(build_url_path("providers", provider)).json()
    slots = provider_state.get("slots") or []
    stored = {credential["slot"]: credential for credential in provider_state.get("credentials") or []}
    if session.output.is_structured:
        session.output.write_document({"slots": slots, "credentials": list(stored.values())})
        return
    declared = {slot["slot"]: slot for slot in slots}
    rows = [
        _build_row(name, declared.get(name, {}), stored.get(name))
        for name in [*declared, *(stored.keys() - declared)]
    ]
    columns = ("SLOT", "KIND", "STORED", "FINGERPRINT", "SENT TO", "LAST USED")
    session.output.write_table(columns, rows, importance=("SLOT", "STORED", "KIND", "LAST USED", "SENT TO"))


@commands.command("remove", cls=GatewayCommand)
def remove(ctx: SessionContext, *, provider: ProviderArgument, slot: SlotArgument) -> None:
    """Delete the credential of a slot."""
    session = ctx.obj
    session.gateway.delete(build_url_path("providers", provider, "credentials", slot))
    if session.output.is_structured:
        session.output.write_document({"removed": slot})
        return
    session.output.note(f"Removed the credential of {provider} in slot {slot}.")


@dataclass(frozen=True, slots=True)
class _CredentialDestination:
    """The origins and the token URL that the command line gives; with `yes` no confirmation is needed."""

    origins: list[str]
    token_url: str | None
    yes: bool


def _confirm_origins(
    session: ClientSession, provider: str, slot: str, requested: _CredentialDestination
) -> list[str]:
    """Return the origins to bind the credential to, [] to leave them to the gateway.

    Raise InputError where they must be confirmed and there is no terminal, typer.Abort where they are not
    confirmed.
    """
    known = _find_known_destination(session, provider, slot)
    if known is None:
        warnings = [
            "This key may not read the current destinations of the credential (scope providers:read)."
        ]
        origins = requested.origins
    else:
        origins = requested.origins or list(known["origins"])
        warnings = _list_differences(known, origins, requested.token_url)
    if warnings and not requested.yes:
        for line in warnings:
            session.output.note(line)
        if not sys.stdin.isatty():
            raise InputError(" ".join([*warnings, "Nothing was stored; confirm with --yes."]))
        confirm("Store the credential?")
    return origins


def _find_known_destination(session: ClientSession, provider: str, slot: str) -> Mapping[str, Any] | None:
    """Return the gateway's `destinations` entry of a slot, None where this key lacks the scope for it."""
    try:
        destinations = session.gateway.get(build_url_path("providers", provider, "credentials")).json()
    except ProblemResponse as error:
        if error.status == 403:
            return None
        raise
    nothing = {"origins": [], "registered": [], "stored": False, "token_url": None}
    return next((one for one in destinations.get("destinations", ()) if one["slot"] == slot), nothing)


def _list_differences(known: Mapping[str, Any], origins: list[str], token_url: str | None) -> list[str]:
    """Return sentences that name the new destinations, [] where there are none."""
    before = known["origins"] if known["stored"] else known["registered"]
    before_normalized = {_normalize_origin(origin) for origin in before}
    lines: list[str] = []
    if new := [origin for origin in origins if _normalize_origin(origin) not in before_normalized]:
        what = "The stored credential is sent to" if known["stored"] else "The provider's source is at"
        lines.append(f"The credential would be sent to {', '.join(new)}.")
        lines.append(f"{what} {', '.join(before)}." if before else "No origin of the provider is known.")
    if token_url and known["token_url"] and token_url != known["token_url"]:
        lines.append(f"The client secret would be sent to {token_url} instead of {known['token_url']}.")
    return lines


def _normalize_origin(origin: str) -> str:
    """Return an origin in a common spelling; a difference in a rarer one is confirmed as if it were new."""
    return origin.strip().lower().removesuffix("/")


def _build_row(name: str, slot: Mapping[str, Any], stored: Mapping[str, Any] | None) -> tuple[object, ...]:
    if stored is None:
        return (name, slot.get("exact_kind") or slot.get("kind"), "no", "", "", "")
    return (
        name,
        stored.get("exact_kind") or stored.get("kind"),
        "yes",
        stored.get("fingerprint"),
        stored.get("allowed_origins"),
        stored.get("last_used_at"),
    )

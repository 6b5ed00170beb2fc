"""`utcp-gateway keys`: the API keys of clients."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from app.cli.completion import complete_key_references, complete_provider_names, complete_toolset_names
from app.cli.errors import CommandFailed, InputError, ProblemResponse
from app.cli.pagination import (
    LIMIT_DEFAULT,
    AllOption,
    CursorOption,
    LimitOption,
    Paging,
    QueryOption,
    SortOption,
    fetch_list,
    show_list,
)
from app.cli.session import ClientSession, GatewayCommand, SessionContext
from app.cli.values import build_url_path, confirm, parse_duration, parse_time
from app.core.rate_limit import RateLimit
from app.security.principal import REPAIR_MODES, SCHEMA_FORMS

commands = typer.Typer(name="keys", help="API keys of clients.", no_args_is_help=True)

KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="Its id or its name.", autocompletion=complete_key_references)
]
OwnerOption = Annotated[
    str | None, typer.Option("--owner", help="Who answers for the key, e.g. a team or an address.")
]
PurposeOption = Annotated[str | None, typer.Option("--purpose", help="What the key is for.")]
AllowUnknownProvidersOption = Annotated[
    bool,
    typer.Option("--allow-unknown-providers", help="Accept providers that do not exist yet."),
]
ArgumentRepairOption = Annotated[
    str | None,
    typer.Option(
        "--argument-repair",
        help="Repair of arguments that are not valid: off, safe, on, or `default`.",
    ),
]
UpstreamModeOption = Annotated[
    str | None,
    typer.Option(
        "--upstream-mode",
        help="live; record or replay, with --recording; mock: whether its calls reach their upstreams.",
    ),
]
RecordingOption = Annotated[
    str | None, typer.Option("--recording", help="The recording of --upstream-mode record or replay.")
]
MockSeedOption = Annotated[
    int | None, typer.Option("--mock-seed", min=0, help="Chooses the responses of --upstream-mode mock.")
]
SchemasOption = Annotated[
    str | None,
    typer.Option("--schemas", help="How MCP shows it schemas: portable, full (with $defs), or `default`."),
]
_SHOWN = (
    "id", "name", "owner", "purpose", "state", "scopes", "providers", "tags", "toolsets", "rate_limit",
    "argument_repair", "upstream", "schemas", "created_at", "expires_at", "revoked_at", "last_used_at",
    "rotated_from", "successor_id",
)  # fmt: skip


@commands.command("create", cls=GatewayCommand)
def create(
    ctx: SessionContext,
    *,
    name: Annotated[str, typer.Argument(help="Name of the key, e.g. of the client that uses it.")],
    scope: Annotated[
        list[str], typer.Option("--scope", "-s", help="A scope, e.g. tools:call; may be repeated.")
    ],
    provider: Annotated[
        list[str] | None,
        typer.Option(
            "--provider",
            autocompletion=complete_provider_names,
            help="Only tools of these providers; may be repeated.",
        ),
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
    toolset: Annotated[
        list[str] | None,
        typer.Option(
            "--toolset",
            autocompletion=complete_toolset_names,
            help="Only by the addresses of these toolsets; may be repeated.",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate", help="Rate limit of its calls, e.g. 100/60 (calls/seconds) or 100/60:20 (with a burst)."
        ),
    ] = None,
    owner: OwnerOption = None,
    purpose: PurposeOption = None,
    argument_repair: ArgumentRepairOption = None,
    upstream_mode: UpstreamModeOption = None,
    recording: RecordingOption = None,
    mock_seed: MockSeedOption = None,
    schemas: SchemasOption = None,
    allow_unknown_providers: AllowUnknownProvidersOption = False,
) -> None:
    """Create a key and print it, once: the gateway stores only a digest.

    Standard output holds nothing but the key, so that KEY=$(utcp-gateway keys create ...) works.
    """
    session = ctx.obj
    body: dict[str, Any] = {"name": name, "scopes": scope}
    body |= {member: text for member, text in (("owner", owner), ("purpose", purpose)) if text is not None}
    if provider:
        body["providers"] = provider
    if allow_unknown_providers:
        body["allow_unknown_providers"] = True
    if tag:
        body["tags"] = tag
    if toolset:
        body["toolsets"] = toolset
    if expires:
        body["expires_at"] = parse_time(expires, option="--expires")
    if rate:
        body["rate_limit"] = _parse_rate(rate)
    if argument_repair is not None:
        body["argument_repair"] = _repair_mode(argument_repair)
    if schemas is not None:
        body["schemas"] = _parse_schema_form(schemas)
    body |= build_upstream_members(upstream_mode, recording, mock_seed)
    created = session.gateway.send("POST", "/keys", json=body).json()
    if session.output.is_structured:
        session.output.write_document(created)
        return
    session.output.note(f"Key {created.get('id')} for {name}; it is shown only now:")
    session.output.write_text(created["key"])
    _print_warnings(session, created)


@commands.command("list", cls=GatewayCommand)
def list_keys(
    ctx: SessionContext,
    *,
    revoked: Annotated[bool, typer.Option("--revoked", help="List revoked keys, too.")] = False,
    state: Annotated[
        str | None,
        typer.Option("--state", help="Only active, expiring, expired or revoked keys."),
    ] = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the keys; their text is never shown again."""
    session = ctx.obj
    columns = ("ID", "NAME", "OWNER", "SCOPES", "PROVIDERS", "TAGS", "RATE", "EXPIRES", "LAST USED", "STATE")
    paging = Paging(limit, everything, cursor, sort, q)
    query = {"include_revoked": revoked or None, "state": state}
    importance = ("ID", "NAME", "STATE", "SCOPES", "LAST USED", "EXPIRES", "OWNER")
    show_list(
        session, "/keys", query=query, paging=paging, columns=columns, row=_build_row, importance=importance
    )


@commands.command("show", cls=GatewayCommand)
def show(ctx: SessionContext, *, reference: KeyArgument) -> None:
    """Show a key: its rights, its owner, and warnings; never its text."""
    session = ctx.obj
    _print_key(session, _find_key(session, reference))


@commands.command("edit", cls=GatewayCommand)
def edit(
    ctx: SessionContext,
    *,
    reference: KeyArgument,
    name: Annotated[str | None, typer.Option("--name", help="Another name.")] = None,
    owner: OwnerOption = None,
    purpose: PurposeOption = None,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", "-s", help="Its scopes from now on, all of them; may be repeated."),
    ] = None,
    provider: Annotated[
        list[str] | None,
        typer.Option(
            "--provider",
            autocompletion=complete_provider_names,
            help="Only tools of these providers, all of them; may be repeated.",
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="Only tools with one of these tags, all of them; may be repeated."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", help="12h, 30d, 8w, a time like 2030-01-31T00:00Z, or `never`."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", help="Rate limit of its calls, e.g. 100/60 or 100/60:20, or `default`."),
    ] = None,
    any_provider: Annotated[
        bool, typer.Option("--any-provider", help="Remove the restriction to providers.")
    ] = False,
    any_tag: Annotated[bool, typer.Option("--any-tag", help="Remove the restriction to tags.")] = False,
    toolset: Annotated[
        list[str] | None,
        typer.Option(
            "--toolset",
            autocompletion=complete_toolset_names,
            help="Only by the addresses of these toolsets; may be repeated.",
        ),
    ] = None,
    no_toolsets: Annotated[bool, typer.Option("--no-toolsets", help="Remove the limit to toolsets.")] = False,
    argument_repair: ArgumentRepairOption = None,
    upstream_mode: UpstreamModeOption = None,
    recording: RecordingOption = None,
    mock_seed: MockSeedOption = None,
    schemas: SchemasOption = None,
    allow_unknown_providers: AllowUnknownProvidersOption = False,
) -> None:
    """Change the description or the rights of a key; what is not given stays as it is."""
    session = ctx.obj
    if (provider and any_provider) or (tag and any_tag):
        raise InputError("Give --provider or --any-provider, and --tag or --any-tag, not both.")
    if toolset and no_toolsets:
        raise InputError("Give --toolset or --no-toolsets, not both.")
    given = {"name": name, "owner": owner, "purpose": purpose}
    body: dict[str, Any] = {member: value for member, value in given.items() if value is not None}
    lists = (("scopes", scope), ("providers", provider), ("tags", tag), ("toolsets", toolset))
    body |= {member: values for member, values in lists if values}
    lifted = (("providers", any_provider), ("tags", any_tag), ("toolsets", no_toolsets))
    body |= {member: None for member, chosen in lifted if chosen}
    if expires is not None:
        body["expires_at"] = None if expires == "never" else parse_time(expires, option="--expires")
    if rate is not None:
        body["rate_limit"] = None if rate == "default" else _parse_rate(rate)
    if argument_repair is not None:
        body["argument_repair"] = _repair_mode(argument_repair)
    if schemas is not None:
        body["schemas"] = _parse_schema_form(schemas)
    body |= build_upstream_members(upstream_mode, recording, mock_seed)
    if not body:
        raise InputError("Give what is to be changed, e.g. --owner or --expires.")
    if allow_unknown_providers:
        body["allow_unknown_providers"] = True
    key_id = _find_key(session, reference)["id"]
    _print_key(session, session.gateway.send("PATCH", build_url_path("keys", key_id), json=body).json())


@commands.command("rotate", cls=GatewayCommand)
def rotate(
    ctx: SessionContext,
    *,
    reference: KeyArgument,
    overlap: Annotated[
        str, typer.Option("--overlap", help="How long the old key remains valid: 0, 30m, 24h, 7d.")
    ] = "24h",
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires",
            help="When the successor expires: 30d, a time, or `never`. Default: as the old key would have.",
        ),
    ] = None,
) -> None:
    """Create the successor of a key and print it, once; the old key expires after the overlap.

    Standard output holds nothing but the key, so that KEY=$(utcp-gateway keys rotate ...) works.
    """
    session = ctx.obj
    body: dict[str, Any] = {"overlap_seconds": parse_duration(overlap, option="--overlap")}
    if expires is not None:
        body["expires_at"] = None if expires == "never" else parse_time(expires, option="--expires")
    key_id = _find_key(session, reference)["id"]
    created = session.gateway.send("POST", build_url_path("keys", key_id, "rotate"), json=body).json()
    if session.output.is_structured:
        session.output.write_document(created)
        return
    session.output.note(
        f"Key {created.get('id')} succeeds {key_id}, which expires after {overlap}; it is shown only now:"
    )
    session.output.write_text(created["key"])
    _print_warnings(session, created)


@commands.command("revoke", cls=GatewayCommand)
def revoke(
    ctx: SessionContext,
    *,
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...", help="Ids or names of keys.", autocompletion=complete_key_references
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Revoke keys: at once on this worker, everywhere within seconds. It cannot be undone."""
    session = ctx.obj
    keys_to_revoke = [_find_key(session, key) for key in keys]
    if not yes:
        confirm(f"Revoke {', '.join(map(_describe_key, keys_to_revoke))}? It cannot be undone.")
    revoked: list[Mapping[str, Any]] = []
    try:
        for key in keys_to_revoke:
            session.gateway.delete(build_url_path("keys", key["id"]))
            revoked.append(key)
    finally:
        # Of several, one may fail after others were revoked.
        if revoked and session.output.is_structured:
            session.output.write_document({"revoked": [key["id"] for key in revoked]})
        elif revoked:
            session.output.note(f"Revoked {', '.join(map(_describe_key, revoked))}.")


def _find_key(session: ClientSession, text: str) -> Mapping[str, Any]:
    """Return the key of an id or, where there is none, of a name; raise InputError for several of the name.

    A key that the one in use may not read has only the id.
    """
    try:
        match: Mapping[str, Any] = session.gateway.get(build_url_path("keys", text)).json()
    except ProblemResponse as error:
        if error.status == 403:
            return {"id": text}
        # Text that cannot be an id is not valid there.
        if error.status not in (404, 422):
            raise
        paging = Paging(0, everything=True, cursor=None, q=text)
        listed = fetch_list(session, "/keys", query={}, paging=paging)["items"]
        named = [key for key in listed if key["name"] == text]
        if not named:
            detail = f"There is no key with the id or the name {text}."
            raise CommandFailed({"title": "Not found", "detail": detail}) from None
        if len(named) > 1:
            ids = ", ".join(key["id"] for key in named)
            raise InputError(f"{len(named)} keys have the name {text}; give an id: {ids}.") from None
        return dict(named[0])
    return match


def _describe_key(key: Mapping[str, Any]) -> str:
    return f"{key['name']} ({key['id']})" if key.get("name") else str(key["id"])


def me(ctx: SessionContext) -> None:
    """Show the key in use: its rights, what is left of its rate limit, how much it may see, and warnings."""
    session = ctx.obj
    key_in_use = session.gateway.get("/me").json()
    if session.output.is_structured:
        session.output.write_document(key_in_use)
        return
    visible, usage = key_in_use["visible"], key_in_use.get("rate_limit_usage")
    # The table below has its scopes.
    _print_fields(
        session,
        {**key_in_use, "scopes": None},
        ("may see", f"{visible['tools']} tools of {visible['providers']} providers"),
        ("calls left", None if usage is None else f"{usage['remaining']} of {_format_rate(usage)}"),
    )
    session.output.write_text("")
    rows = ((scope["name"], scope["description"]) for scope in key_in_use["scope_descriptions"])
    session.output.write_table(("SCOPE", "ALLOWS"), rows)
    _print_warnings(session, key_in_use)


def build_upstream_members(mode: str | None, recording: str | None, seed: int | None) -> dict[str, Any]:
    """Return the member `upstream` of a key or toolset by its options; nothing where none is given."""
    if mode is None:
        if recording is not None or seed is not None:
            raise InputError("Give --upstream-mode with --recording or --mock-seed.")
        return {}
    if mode not in ("live", "record", "replay", "mock"):
        raise InputError("--upstream-mode is live, record, replay or mock.")
    if (mode in ("record", "replay")) is (recording is None):
        raise InputError("Give --recording with --upstream-mode record or replay, and with no other.")
    if seed is not None and mode != "mock":
        raise InputError("Give --mock-seed with --upstream-mode mock only.")
    if mode == "live":
        return {"upstream": None}
    members: dict[str, Any] = {"mode": mode}
    members |= {"recording": recording} if recording is not None else {}
    members |= {"seed": seed} if seed is not None else {}
    return {"upstream": members}


def _print_key(session: ClientSession, key: Mapping[str, Any]) -> None:
    if session.output.is_structured:
        session.output.write_document(key)
        return
    _print_fields(session, key)
    _print_warnings(session, key)


def _print_fields(session: ClientSession, key: Mapping[str, Any], *others: tuple[str, object]) -> None:
    shown = {
        **key,
        "rate_limit": _format_rate(key.get("rate_limit")),
        "upstream": format_upstream(key.get("upstream")),
    }
    session.output.write_fields([*((name.replace("_", " "), shown.get(name)) for name in _SHOWN), *others])


def _print_warnings(session: ClientSession, key: Mapping[str, Any]) -> None:
    for warning in key.get("warnings") or ():
        session.output.warn(f"Warning: {warning.get('detail')} {warning.get('hint')}")


def _parse_rate(text: str) -> dict[str, int]:
    try:
        return RateLimit.parse(text).to_stored()
    except ValueError as error:
        raise InputError(f"--rate {error}.") from None


def _repair_mode(text: str) -> str | None:
    """Return the value of `--argument-repair` as the API takes it; raise InputError."""
    if text != "default" and text not in REPAIR_MODES:
        raise InputError("--argument-repair is off, safe, on or default.")
    return None if text == "default" else text


def _parse_schema_form(text: str) -> str | None:
    """Return the value of `--schemas` as the API takes it; raise InputError."""
    if text != "default" and text not in SCHEMA_FORMS:
        raise InputError("--schemas is portable, full or default.")
    return None if text == "default" else text


def _format_rate(stored: Mapping[str, int] | None) -> str | None:
    """Return a rate limit in the form of `--rate`."""
    return None if stored is None else "{requests}/{per_seconds}:{burst}".format_map(stored)


def format_upstream(stored: Mapping[str, Any] | None) -> str | None:
    """Return an upstream mode as text, e.g. `replay checkout`."""
    if stored is None:
        return None
    mode, recording = stored.get("mode"), stored.get("recording")
    if mode == "mock":
        return f"mock, seed {stored.get('seed', 0)}"
    return str(mode) if recording is None else f"{mode} {recording}"


def _build_row(key: Mapping[str, Any]) -> tuple[object, ...]:
    first = tuple(key.get(member) for member in ("id", "name", "owner", "scopes", "providers", "tags"))
    last = tuple(key.get(member) for member in ("expires_at", "last_used_at", "state"))
    return (*first, _format_rate(key.get("rate_limit")), *last)

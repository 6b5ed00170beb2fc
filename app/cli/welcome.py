"""The greeting of `serve`: the console, the address, the first key, and three commands to copy."""

import asyncio
import dataclasses
import os
import shutil
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import typer

from app.access.data_keys import open_vault
from app.access.repository import create_key, has_keys
from app.access.sessions.model import FIRST_LINK_SECONDS
from app.access.sessions.store import add_token
from app.cli.client import GatewayClient
from app.cli.errors import CommandFailed, ProblemResponse
from app.cli.session import DEFAULT_URL
from app.core.settings import Settings
from app.security.vault import KeyRing
from app.storage.database import Database
from app.storage.models import TENANT, now

ADMIN_KEY_FILE = "admin.key"
_START_SECONDS = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Welcome:
    """The content of the greeting.

    `local` is the address without a proxy in front, `key` the admin key for our own requests; `is_new` says
    whether to show it. `sample` is the body that registers the sample API. `console` is the address of the
    web console, None where that is off, and `sign_in_link` a link that signs in to it with `key`. At the
    first start, `first_token` is the secret of that link, which is valid for longer than others.
    """

    address: str
    local: str
    key: str | None = dataclasses.field(default=None, repr=False)
    is_new: bool = False
    key_file: Path | None = None
    sample: dict[str, Any] | None = dataclasses.field(default=None, repr=False)
    console: str | None = None
    sign_in_link: str | None = dataclasses.field(default=None, repr=False)
    first_token: str | None = dataclasses.field(default=None, repr=False)

    @classmethod
    def prepare(cls, settings: Settings, *, address: str, local: str) -> "Welcome":
        """Return a greeting of the embedded mode; write a first key to `<data_dir>/admin.key` (0600)."""
        path = settings.data_dir / ADMIN_KEY_FILE
        fresh, token = asyncio.run(_create_first_key(settings)) or (None, None)
        if fresh is not None:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                os.fchmod(descriptor, 0o600)
                file.write(fresh + "\n")
        key = fresh or (path.read_text(encoding="ascii").strip() if path.is_file() else None)
        return cls(
            address=address,
            local=local,
            key=key,
            is_new=fresh is not None,
            key_file=path,
            console=build_console_address(settings, address),
            first_token=token,
        )

    def with_sample(self, registration: dict[str, Any]) -> "Welcome":
        """Return a copy with the body that registers the sample API."""
        return dataclasses.replace(self, sample=registration)


def build_console_address(settings: Settings, address: str) -> str | None:
    """Return the address of the web console of a gateway at `address`; None where it is switched off."""
    return f"{address}/console" if settings.console else None


async def _create_first_key(settings: Settings) -> tuple[str, str] | None:
    """Return the text of a new admin key and the token of a sign-in link of it; None where there are keys."""
    assert settings.database_url is not None  # noqa: S101 - set by the embedded start
    database = Database(settings.database_url.get_secret_value(), pool_size=1)
    try:
        vault = await open_vault(database, KeyRing.parse(settings.read_key_ring()))
        async with database.transaction() as session:
            if await has_keys(session):
                return None
            minted = await create_key(session, vault, name="first admin", scopes=("admin",), actor="serve")
            token = add_token(
                session,
                vault,
                key_id=minted.key_id,
                tenant_id=TENANT,
                expires_at=now() + timedelta(seconds=FIRST_LINK_SECONDS),
            )
        return minted.text.reveal(), token
    finally:
        await database.aclose()


def greet(greeting: Welcome) -> None:
    """Wait until the gateway is ready, register the sample API in an empty registry, and greet."""
    with GatewayClient(greeting.local, key=greeting.key) as gateway:
        if not _is_ready(gateway):
            return
        if greeting.sample is not None and greeting.key is not None:
            _register(gateway, greeting.sample)
        if greeting.console is not None and greeting.key is not None:
            link = _sign_in_link(gateway)
            if link is not None and greeting.first_token is not None:
                link = f"{link.partition('#')[0]}#{greeting.first_token}"
            greeting = dataclasses.replace(greeting, sign_in_link=link)
    typer.echo(write_greeting(greeting), err=True)


def _is_ready(gateway: GatewayClient) -> bool:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            gateway.get("/health/ready")
        except CommandFailed:
            time.sleep(0.1)
        else:
            return True
    return False


def _register(gateway: GatewayClient, registration: dict[str, Any]) -> None:
    try:
        if not gateway.get("/providers", query={"limit": 1}).json()["items"]:
            gateway.send("POST", "/providers", json=registration)
    except ProblemResponse as error:
        # Another worker or a user may have been first.
        if error.status != 409:
            typer.echo(f"The sample API was not registered: {error}", err=True)
    except CommandFailed as failed:
        typer.echo(f"The sample API was not registered: {failed}", err=True)


def _sign_in_link(gateway: GatewayClient) -> str | None:
    """Return a new sign-in link; None where it cannot be made, e.g. because the key was revoked."""
    try:
        return str(gateway.send("POST", "/session/link").json()["url"])
    except (CommandFailed, KeyError, TypeError):
        return None


def write_greeting(greeting: Welcome) -> str:
    """Return the text of a greeting. The key is shown at the first start only; later its file is named."""
    base = greeting.address
    lines = [""]
    if greeting.sign_in_link is not None:
        another = f"{_name_program()} sign-in-link{_write_options(greeting)}"
        period = "60 seconds" if greeting.first_token is None else "ten minutes"
        lines += [
            f"  Console         {greeting.sign_in_link}",
            f"                  (valid once, for {period}; another one: {another})",
        ]
    elif greeting.console is not None:
        lines.append(f"  Console         {greeting.console}")
    lines += [f"  utcp-gateway listens on {base}", f"  Documentation   {base}/docs"]
    if greeting.is_new:
        lines += [
            f"  Admin key       {greeting.key}",
            f"                  (shown once; stored in {greeting.key_file})",
        ]
    elif greeting.key_file is not None:
        lines.append(f"  Admin key       in {greeting.key_file}")
    if greeting.key_file is not None:
        lines += ["  Loopback addresses may be called, because this is the embedded mode.", ""]
        if greeting.sample is None:
            lines.append("  Register an API in another terminal, then search its tools:")
        else:
            lines.append("  Try, in another terminal: search, call, and register an API of your own")
        lines += [f"    {command}" for command in _list_commands(greeting)]
    lines.append("")
    return "\n".join(lines)


def _list_commands(greeting: Welcome) -> list[str]:
    """Return commands to copy."""
    program, options = _name_program(), _write_options(greeting)
    if greeting.sample is None:
        return [
            f"{program} providers add https://api.example.com/openapi.json --name my-api{options}",
            f'{program} tools search "what it should do"{options}',
        ]
    document = greeting.sample["source"]["url"]
    return [
        f'{program} tools search "find a book"{options}',
        f"{program} tools call library.searchBooks q=sea{options}",
        f"{program} providers add {document} --name my-api{options}",
    ]


def _write_options(greeting: Welcome) -> str:
    """Return the options of a command where the defaults would not find this gateway and key."""
    options = "" if greeting.local == DEFAULT_URL else f" --url {greeting.local}"
    if greeting.key_file is not None and greeting.key_file.absolute() != Path(".data/admin.key").absolute():
        options += f" --key-file {greeting.key_file}"
    return options


def _name_program() -> str:
    program = Path(sys.argv[0])
    try:
        return str(program.absolute().relative_to(Path.cwd()))
    except ValueError:
        return program.name if shutil.which(program.name) else str(program.absolute())

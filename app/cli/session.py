"""The options that every command shares, and what a command is given: a gateway to talk to and an output.

`@remote` turns a function of a `Session` into a command with these options, `@local` one of an `Output` that
needs no gateway. Both turn `CommandFailed` into sentences and an exit code. Options given to a command win
over those given before it, those over the environment. A parameter whose type is a dataclass stands for one
option per field.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec
from urllib.parse import urlsplit

import typer
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.cli.client import Gateway
from app.cli.outcome import BadInput, CommandFailed, Refused
from app.cli.output import Output

P = ParamSpec("P")

DEFAULT_URL = "http://127.0.0.1:8000"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PANEL = "Connection"

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        rich_help_panel=_PANEL,
        help=f"Address of the gateway, {DEFAULT_URL} by default.",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", rich_help_panel=_PANEL, help="API key; better in UTCP_GATEWAY_KEY."),
]
KeyFileOption = Annotated[
    Path | None, typer.Option("--key-file", rich_help_panel=_PANEL, help="File that holds the API key.")
]
CaFileOption = Annotated[
    Path | None, typer.Option("--ca-file", rich_help_panel=_PANEL, help="CA bundle for an https address.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Pure JSON on standard output, everything else on standard error.")
]


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the gateway is and with which key; None where nobody said."""

    url: str | None = None
    key: str | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    json: bool = False

    def over(self, outer: "Connection") -> "Connection":
        """These options, completed by those further left; a key of either kind hides both outer ones."""
        keyed = self if self.key or self.key_file else outer
        return Connection(
            url=self.url or outer.url,
            key=keyed.key,
            key_file=keyed.key_file,
            ca_file=self.ca_file or outer.ca_file,
            json=self.json or outer.json,
        )


class _Environment(BaseSettings):
    """What the environment says; `.env` is read for DATA_DIR only, as the gateway itself does."""

    model_config = SettingsConfigDict(extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    utcp_gateway_url: str | None = None
    utcp_gateway_key: str | None = None
    utcp_gateway_key_file: Path | None = None
    utcp_gateway_ca_file: Path | None = None


class _DataDir(BaseSettings):
    model_config = SettingsConfigDict(env_file=".env", extra="ignore", env_ignore_empty=True)

    data_dir: Path = Path(".data")


class Session:
    """One command's gateway (connected when first asked for) and output."""

    def __init__(self, connection: Connection, output: Output) -> None:
        self.output = output
        found = _Environment()
        self._connection = connection.over(
            Connection(
                url=found.utcp_gateway_url,
                key=found.utcp_gateway_key,
                key_file=found.utcp_gateway_key_file,
                ca_file=found.utcp_gateway_ca_file,
            )
        )
        self._gateway: Gateway | None = None
        self.keyed = False

    @property
    def gateway(self) -> Gateway:
        """The gateway; `BadInput` when the address or the key file cannot be used."""
        if self._gateway is None:
            chosen = self._connection
            url = chosen.url or DEFAULT_URL
            key = _key(chosen, url)
            self.keyed = key is not None
            self._gateway = Gateway(url, key=key, ca_file=chosen.ca_file)
        return self._gateway

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._gateway is not None:
            self._gateway.__exit__(None, None, None)


def _key(connection: Connection, url: str) -> str | None:
    """The key to send. The embedded mode's own key is offered to this machine only."""
    if connection.key:
        return connection.key.strip()
    if connection.key_file:
        try:
            return connection.key_file.read_text().strip()
        except (OSError, UnicodeDecodeError):
            raise BadInput(f"The key file {connection.key_file} cannot be read.") from None
    if urlsplit(url).hostname in _LOOPBACK:
        try:
            return (_DataDir().data_dir / "admin.key").read_text().strip() or None
        except (OSError, UnicodeDecodeError):
            return None
    return None


def remote(command: Callable[Concatenate[Session, P], None]) -> Callable[..., None]:
    """Make a command that talks to a gateway."""

    def run(connection: Connection, **arguments: Any) -> None:
        session = Session(connection, Output(json=connection.json))
        try:
            command(session, **arguments)  # type: ignore[call-arg]
        except Refused as refused:
            if refused.status == 401 and not session.keyed:
                refused.hint = "give an API key with --key-file or UTCP_GATEWAY_KEY (`utcp-gateway --help`)."
            raise
        finally:
            session.close()

    return _with_options(
        command,
        run,
        {
            "url": UrlOption,
            "key": KeyOption,
            "key_file": KeyFileOption,
            "ca_file": CaFileOption,
            "json": JsonOption,
        },
    )


def local(command: Callable[Concatenate[Output, P], None]) -> Callable[..., None]:
    """Make a command that needs no gateway."""

    def run(connection: Connection, **arguments: Any) -> None:
        command(Output(json=connection.json), **arguments)  # type: ignore[call-arg]

    return _with_options(command, run, {"json": JsonOption})


def _with_options(
    command: Callable[..., None], run: Callable[..., None], options: dict[str, Any]
) -> Callable[..., None]:
    """`run` with the command's own parameters, the shared options, and typer's context, for typer to read."""
    _, *own = inspect.signature(command).parameters.values()
    groups: dict[str, Any] = {
        one.name: one.annotation for one in own if dataclasses.is_dataclass(one.annotation)
    }

    @functools.wraps(command)
    def wrapper(ctx: typer.Context, **arguments: Any) -> None:
        given = Connection(**{name: arguments.pop(f"shared_{name}") for name in options})
        outer = ctx.obj if isinstance(ctx.obj, Connection) else Connection()
        connection = given.over(outer)
        for name, group in groups.items():
            members = {field.name: arguments.pop(field.name) for field in dataclasses.fields(group)}
            arguments[name] = group(**members)
        try:
            run(connection, **arguments)
        except CommandFailed as failed:
            output = Output(json=connection.json)
            output.problem(failed.problem)
            if failed.hint:
                output.note(f"Hint: {failed.hint}")
            raise typer.Exit(failed.exit_code) from None

    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *(one for parameter in own for one in _expanded(parameter)),
        *(
            _option(f"shared_{name}", kind, default=False if name == "json" else None)
            for name, kind in options.items()
        ),
    ]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def _expanded(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    if not dataclasses.is_dataclass(parameter.annotation):
        return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    fields = dataclasses.fields(parameter.annotation)
    return [_option(field.name, field.type, default=field.default) for field in fields]


def _option(name: str, annotation: Any, *, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

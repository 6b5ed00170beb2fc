"""The options that all commands share, and the session that a command gets: a gateway and an output.

The root command declares the shared options and stores a `Session` in the Typer context. A `GatewayCommand`
accepts the same options after its name, too. Options after the command take precedence over those before it,
and those over the environment.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

import typer
from pydantic_settings import BaseSettings, SettingsConfigDict
from typer.core import TyperCommand

from app.cli.client import GatewayClient
from app.cli.errors import InputError
from app.cli.output import CommandOutput

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
class ConnectionOptions:
    """The values of the shared options, None for what is not given."""

    url: str | None = None
    key: str | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    json: bool = False

    def over(self, outer: "ConnectionOptions") -> "ConnectionOptions":
        """Return these options, completed with `outer`; a key or key file here hides both of `outer`."""
        keyed = self if self.key or self.key_file else outer
        return ConnectionOptions(
            url=self.url or outer.url,
            key=keyed.key,
            key_file=keyed.key_file,
            ca_file=self.ca_file or outer.ca_file,
            json=self.json or outer.json,
        )


class _Environment(BaseSettings):
    """The environment variables of the client; of `.env` only DATA_DIR is read, as by the gateway itself."""

    model_config = SettingsConfigDict(extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    utcp_gateway_url: str | None = None
    utcp_gateway_key: str | None = None
    utcp_gateway_key_file: Path | None = None
    utcp_gateway_ca_file: Path | None = None

    def options(self) -> ConnectionOptions:
        """Return the variables as options."""
        return ConnectionOptions(
            url=self.utcp_gateway_url,
            key=self.utcp_gateway_key,
            key_file=self.utcp_gateway_key_file,
            ca_file=self.utcp_gateway_ca_file,
        )


class _DataDir(BaseSettings):
    model_config = SettingsConfigDict(env_file=".env", extra="ignore", env_ignore_empty=True)

    data_dir: Path = Path(".data")


class ClientSession:
    """The gateway (connected at first use) and the output of one command. Close it."""

    def __init__(self, options: ConnectionOptions) -> None:
        self.options = options
        self.has_key = False
        """Whether requests carry an API key; known once `gateway` was used."""
        self._gateway: GatewayClient | None = None
        self._output: CommandOutput | None = None

    @property
    def output(self) -> CommandOutput:
        """Both output streams, in the form that `--json` chooses."""
        if self._output is None:
            self._output = CommandOutput(json=self.options.json)
        return self._output

    @property
    def gateway(self) -> GatewayClient:
        """The client of the gateway; raise InputError where the address or the key file cannot be used."""
        if self._gateway is None:
            chosen = self.options.over(_Environment().options())
            url = chosen.url or DEFAULT_URL
            key = api_key(chosen, url)
            self.has_key = key is not None
            self._gateway = GatewayClient(url, key=key, ca_file=chosen.ca_file)
        return self._gateway

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._gateway is not None:
            self._gateway.close()


def api_key(options: ConnectionOptions, url: str) -> str | None:
    """Return the API key for the gateway at `url`, None without one.

    The admin key of the embedded mode (DATA_DIR/admin.key) is the default for a gateway on this machine only.
    Raise InputError where the key file cannot be read.
    """
    if options.key:
        return options.key.strip()
    if options.key_file:
        try:
            return options.key_file.read_text().strip()
        except (OSError, UnicodeDecodeError):
            raise InputError(f"The key file {options.key_file} cannot be read.") from None
    if urlsplit(url).hostname in _LOOPBACK:
        try:
            return (_DataDir().data_dir / "admin.key").read_text().strip() or None
        except (OSError, UnicodeDecodeError):
            return None
    return None


class SessionContext(typer.Context):
    """The Typer context of a command, with the session that the root command stored."""

    obj: ClientSession


class GatewayCommand(TyperCommand):
    """A command that accepts the shared options of the root command after its own name, too."""

    shared: ClassVar[frozenset[str]] = frozenset({"url", "key", "key_file", "ca_file", "json"})

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's own parameters and the shared ones, as the root command declares them."""
        return [*super().get_params(ctx), *self._shared_params(ctx)]

    def invoke(self, ctx: Any) -> Any:
        """Run the command with the shared options merged into the session; they are no arguments of it."""
        given = {param.name: ctx.params.pop(param.name) for param in self._shared_params(ctx)}
        session: ClientSession = ctx.obj
        session.options = ConnectionOptions(**given).over(session.options)
        return super().invoke(ctx)

    def _shared_params(self, ctx: Any) -> list[Any]:
        return [param for param in ctx.find_root().command.params if param.name in self.shared]


class OfflineCommand(GatewayCommand):
    """A command that needs no gateway: of the shared options it accepts `--json` only."""

    shared: ClassVar[frozenset[str]] = frozenset({"json"})

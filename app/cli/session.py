"""The options that all commands share, and the session that a command gets: a gateway and an output.

The root command declares the shared options and stores a `Session` in the Typer context. A `GatewayCommand`
accepts the same options after its name, too. Options after the command take precedence over those before it,
and those over the environment.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from urllib.parse import urlsplit

import typer
from typer.core import TyperOption

from app.cli.command_help import Command, write_section
from app.cli.errors import InputError
from app.cli.output import PROGRESS_SECONDS, CommandOutput, OutputFormat

if TYPE_CHECKING:
    from app.cli.client import GatewayClient

DEFAULT_URL = "http://127.0.0.1:8000"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help=f"Address of the gateway, {DEFAULT_URL} by default.",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="API key; better in UTCP_GATEWAY_KEY."),
]
KeyFileOption = Annotated[Path | None, typer.Option("--key-file", help="File that holds the API key.")]
CaFileOption = Annotated[Path | None, typer.Option("--ca-file", help="CA bundle for an https address.")]
FormatOption = Annotated[
    OutputFormat | None,
    typer.Option(
        "--output",
        "-o",
        metavar="table|json|yaml|name",
        help="Format of standard output; table by default. All but table are for programs.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as -o json.")]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The values of the shared options; None where an option is absent."""

    url: str | None = None
    key: str | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    output: OutputFormat | None = None

    def with_defaults(self, defaults: "ConnectionOptions") -> "ConnectionOptions":
        """Return these options, completed with `defaults`; a key or key file here overrides both there."""
        keyed = self if self.key or self.key_file else defaults
        return ConnectionOptions(
            url=self.url or defaults.url,
            key=keyed.key,
            key_file=keyed.key_file,
            ca_file=self.ca_file or defaults.ca_file,
            output=self.output or defaults.output,
        )


_NO_OPTIONS = ConnectionOptions()


def format_parameters(output: OutputFormat | None, *, json: bool) -> OutputFormat | None:
    """Return the format that `-o` or `--json` chooses, None for neither; raise BadParameter for two."""
    if json and output not in (None, OutputFormat.JSON):
        raise typer.BadParameter("give --json or -o, not both.")
    return OutputFormat.JSON if json else output


def read_environment_options() -> ConnectionOptions:
    """Return the environment variables of the client as options; None where one is unset or empty."""
    key_file, ca_file = os.environ.get("UTCP_GATEWAY_KEY_FILE"), os.environ.get("UTCP_GATEWAY_CA_FILE")
    return ConnectionOptions(
        url=os.environ.get("UTCP_GATEWAY_URL") or None,
        key=os.environ.get("UTCP_GATEWAY_KEY") or None,
        key_file=Path(key_file) if key_file else None,
        ca_file=Path(ca_file) if ca_file else None,
    )


def find_data_dir() -> Path:
    """Return the folder of the embedded servers: DATA_DIR of the environment, else of `.env`, as the gateway
    reads it; .data by default.
    """
    return Path(_get_data_dir(os.environ) or _get_data_dir(_read_env_file()) or ".data")


def _get_data_dir(variables: Mapping[str, str | None]) -> str | None:
    """Return DATA_DIR in any case, as the settings read it."""
    return next((value for name, value in variables.items() if name.upper() == "DATA_DIR" and value), None)


def _read_env_file() -> Mapping[str, str | None]:
    """Return the variables of `.env` in the working directory; none where it cannot be read."""
    path = Path(".env")
    try:
        if not path.is_file():
            return {}
        from dotenv import dotenv_values

        return dotenv_values(path)
    except (OSError, UnicodeDecodeError):
        return {}


class ClientSession:
    """The gateway (connected at first use) and the output of one command. Close it."""

    def __init__(
        self,
        options: ConnectionOptions = _NO_OPTIONS,
        *,
        progress_seconds: float = PROGRESS_SECONDS,
        seconds: float | None = None,
    ) -> None:
        """`seconds` is the longest time for a response; None for that of the longest request."""
        self.options = options
        self._seconds = seconds
        self._progress_seconds = progress_seconds
        self.has_key = False
        """Whether requests carry an API key; known once `gateway` was used."""
        self._gateway: GatewayClient | None = None
        self._output: CommandOutput | None = None

    @property
    def output(self) -> CommandOutput:
        """Both output streams, in the format that `-o` chooses."""
        if self._output is None:
            self._output = CommandOutput(
                self.options.output or OutputFormat.TABLE, progress_seconds=self._progress_seconds
            )
        return self._output

    @property
    def gateway(self) -> "GatewayClient":
        """The client of the gateway; raise InputError where the address or the key file cannot be used."""
        if self._gateway is None:
            from app.cli.client import GatewayClient

            chosen = self.options.with_defaults(read_environment_options())
            url = chosen.url or DEFAULT_URL
            key = find_api_key(chosen, url)
            self.has_key = key is not None
            self._gateway = GatewayClient(url, key=key, ca_file=chosen.ca_file, seconds=self._seconds)
        return self._gateway

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._gateway is not None:
            self._gateway.close()


def find_api_key(options: ConnectionOptions, url: str) -> str | None:
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
            return (find_data_dir() / "admin.key").read_text().strip() or None
        except (OSError, UnicodeDecodeError):
            return None
    return None


class SessionContext(typer.Context):
    """The Typer context of a command, with the session that the root command stored."""

    obj: ClientSession


class GatewayCommand(Command):
    """A command that accepts the shared options of the root command after its own name, too."""

    shared: ClassVar[frozenset[str]] = frozenset({"url", "key", "key_file", "ca_file", "output", "json"})

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's own parameters and the shared ones, as the root command declares them."""
        return [*super().get_params(ctx), *self._list_shared_params(ctx)]

    def invoke(self, ctx: Any) -> Any:
        """Run the command with the shared options merged into the session; they are no arguments of it."""
        values = {param.name: ctx.params.pop(param.name) for param in self._list_shared_params(ctx)}
        values["output"] = format_parameters(values["output"], json=values.pop("json"))
        session: ClientSession = ctx.obj
        session.options = ConnectionOptions(**values).with_defaults(session.options)
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the command's arguments and options, then the shared options in a section of their own."""
        shared = self._list_shared_params(ctx)
        own = [param for param in self.get_params(ctx) if param not in shared]
        arguments = [param for param in own if not isinstance(param, TyperOption)]
        options = [param for param in own if isinstance(param, TyperOption)]
        for title, params in (("Arguments", arguments), ("Options", options), ("Shared options", shared)):
            write_section(formatter, ctx, title, params)

    def _list_shared_params(self, ctx: Any) -> list[Any]:
        return [param for param in ctx.find_root().command.params if param.name in self.shared]


class OfflineCommand(GatewayCommand):
    """A command that needs no gateway: of the shared options it accepts only those of the output."""

    shared: ClassVar[frozenset[str]] = frozenset({"output", "json"})

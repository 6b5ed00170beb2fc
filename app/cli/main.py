"""`utcp-gateway`: the commands, and the options that all of them share."""

import errno
import os
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from app.cli import calls, credentials, events, keys, openapi, providers, tools, transfer, variables
from app.cli.outcome import EXIT_CODES_HELP
from app.cli.session import CaFileOption, Connection, JsonOption, KeyFileOption, KeyOption, UrlOption
from app.security.dumps import disable_core_dumps

#: Commands that hold the whole gateway, each a function in a module of its name. They are loaded when they
#: are asked for: `--version` costs 1.4 s of CPU with them and 0.3 s without.
_OPERATOR = ("serve", "bootstrap", "migrate")


class Commands(TyperGroup):
    """The commands of the client, and those of the operator in front of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of the help."""
        return [*_OPERATOR, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, loaded now if it is one of the operator's."""
        if cmd_name not in _OPERATOR:
            return super().get_command(ctx, cmd_name)
        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        alone.command(cmd_name)(getattr(import_module(f"app.cli.{cmd_name}"), cmd_name))
        return get_command(alone)


app = typer.Typer(
    name="utcp-gateway",
    cls=Commands,
    rich_markup_mode="markdown",
    no_args_is_help=True,
    # A traceback with local variables could show a key.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES_HELP,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("utcp-gateway"))
        raise typer.Exit


@app.callback()
def shared(
    ctx: typer.Context,
    url: UrlOption = None,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
    json: JsonOption = False,
    _show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A UTCP registry and proxy: register APIs once, let agents discover, search and call their tools.

    All commands but serve, bootstrap, migrate and openapi talk to a running gateway. Its address and the API
    key come from --url and --key, before or after the command, or from UTCP_GATEWAY_URL, UTCP_GATEWAY_KEY (or
    UTCP_GATEWAY_KEY_FILE) and UTCP_GATEWAY_CA_FILE. Without a key, a gateway on this machine is offered that
    of the embedded mode, DATA_DIR/admin.key.
    """
    ctx.obj = Connection(url=url, key=key, key_file=key_file, ca_file=ca_file, json=json)


app.add_typer(providers.commands)
app.add_typer(credentials.commands)
app.add_typer(variables.commands)
app.add_typer(tools.commands)
app.add_typer(calls.commands)
app.add_typer(events.commands)
app.add_typer(keys.commands)
app.add_typer(openapi.commands)
app.command("export")(transfer.export)
app.command("import")(transfer.import_)


def main() -> None:
    """Entry point of the installed command."""
    # Every command holds a key, or all of them.
    disable_core_dumps()
    try:
        app()
    except OSError as error:
        # What is left in the buffer of standard output must not be tried again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            sys.stderr.write(f"Error: standard output cannot be written: {error.strerror}.\n")
        sys.exit(1)

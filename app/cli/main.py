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
from app.cli.errors import EXIT_CODES_HELP, CommandFailed, ProblemResponse
from app.cli.session import (
    CaFileOption,
    ClientSession,
    ConnectionOptions,
    GatewayCommand,
    JsonOption,
    KeyFileOption,
    KeyOption,
    UrlOption,
)
from app.security.core_dumps import disable_core_dumps

#: Commands that import the whole gateway, each a function in a module of its name. They are imported at
#: use: `--version` costs 1.4 s of CPU with them and 0.3 s without.
_OPERATOR_COMMANDS = ("serve", "bootstrap", "migrate")

_NO_KEY_HINT = "give an API key with --key-file or UTCP_GATEWAY_KEY (`utcp-gateway --help`)."


class RootCommand(TyperGroup):
    """All commands: those of the operator, imported at use, and those of the client.

    It shows `CommandFailed` as sentences (or as JSON) and exits with its code.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names, in the order of the help."""
        return [*_OPERATOR_COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, imported now if it is one of the operator's; None for none."""
        if cmd_name not in _OPERATOR_COMMANDS:
            return super().get_command(ctx, cmd_name)
        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        alone.command(cmd_name)(getattr(import_module(f"app.cli.{cmd_name}"), cmd_name))
        return get_command(alone)

    def invoke(self, ctx: Any) -> Any:
        """Run the command line; raise typer.Exit with the code of an error that was shown."""
        try:
            return super().invoke(ctx)
        except CommandFailed as failed:
            session: ClientSession = ctx.obj
            session.output.problem(failed.problem)
            if failed.hint:
                session.output.note(f"Hint: {failed.hint}")
            elif isinstance(failed, ProblemResponse) and failed.status == 401 and not session.has_key:
                session.output.note(f"Hint: {_NO_KEY_HINT}")
            raise typer.Exit(failed.exit_code) from None


app = typer.Typer(
    name="utcp-gateway",
    cls=RootCommand,
    rich_markup_mode="markdown",
    no_args_is_help=True,
    # A traceback with local variables could show a key.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES_HELP,
)


def _show_version(given: bool) -> None:
    if given:
        typer.echo(version("utcp-gateway"))
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    url: UrlOption = None,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
    json: JsonOption = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A UTCP registry and proxy: register APIs once, let agents discover, search and call their tools.

    All commands but serve, bootstrap, migrate and openapi talk to a running gateway. Its address and the API
    key come from --url and --key, before or after the command, or from UTCP_GATEWAY_URL, UTCP_GATEWAY_KEY (or
    UTCP_GATEWAY_KEY_FILE) and UTCP_GATEWAY_CA_FILE. Without a key, a gateway on this machine
    gets that of the embedded mode, DATA_DIR/admin.key.
    """
    options = ConnectionOptions(url=url, key=key, key_file=key_file, ca_file=ca_file, json=json)
    ctx.obj = session = ClientSession(options)
    ctx.call_on_close(session.close)


app.add_typer(providers.commands)
app.add_typer(credentials.commands)
app.add_typer(variables.commands)
app.add_typer(tools.commands)
app.add_typer(calls.commands)
app.add_typer(events.commands)
app.add_typer(keys.commands)
app.add_typer(openapi.commands)
app.command("export", cls=GatewayCommand)(transfer.export)
app.command("import", cls=GatewayCommand)(transfer.import_)


def main() -> None:
    """Run `utcp-gateway`, the installed command."""
    # Every command has an API key in its memory, or all secrets of the gateway.
    disable_core_dumps()
    try:
        app()
    except OSError as error:
        # What is left in the buffer of standard output must not be tried again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            sys.stderr.write(f"Error: standard output cannot be written: {error.strerror}.\n")
        sys.exit(1)

"""The root command: its options, which all commands share, and the commands, imported when they are used."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command, get_group

from app.cli.command_help import Command, write_section
from app.cli.errors import EXIT_CODES_HELP, CommandFailed, ProblemResponse
from app.cli.session import (
    CaFileOption,
    ClientSession,
    ConnectionOptions,
    FormatOption,
    GatewayCommand,
    JsonOption,
    KeyFileOption,
    KeyOption,
    UrlOption,
    format_parameters,
)

_NO_KEY_HINT = "give an API key with --key-file or UTCP_GATEWAY_KEY (`utcp-gateway --help`)."
_HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command of the root, or a group of them: the module that has it, and what the list of commands says.

    `attribute` names the Typer application of a group, or the function of a command, whose class is `kind`.
    """

    module: str
    attribute: str
    summary: str
    kind: type[TyperCommand] = Command


#: The list of commands in `--help`: importing all of them would take ten times as long. A test compares the
#: summaries with those of the commands.
COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "serve": LazyCommand(
        "operator", "serve", "Serve the gateway; without --database-url and --redis-url on embedded servers."
    ),
    "bootstrap": LazyCommand("operator", "bootstrap", "Create an admin key directly in the database."),
    "migrate": LazyCommand("operator", "migrate", "Migrate the database's schema to this version."),
    "providers": LazyCommand("providers", "commands", "Registered APIs."),
    "credentials": LazyCommand("credentials", "commands", "Credentials for the APIs of providers."),
    "variables": LazyCommand(
        "variables", "commands", "Variables: the values of ${NAME} in providers and credentials."
    ),
    "tools": LazyCommand("tools", "commands", "Find tools and call them."),
    "toolsets": LazyCommand("toolsets", "commands", "Named views of the registry for agents."),
    "search": LazyCommand(
        "search", "commands", "Synonyms and pinned results of searches, and what is learned from use."
    ),
    "recordings": LazyCommand("recordings", "commands", "Recorded calls, which keys and toolsets replay."),
    "agent-test": LazyCommand(
        "agent_tests",
        "agent_test",
        "Run a test of models with tools, and show the result of each case with each model.",
        GatewayCommand,
    ),
    "plugins": LazyCommand("plugins", "commands", "Ready providers, off until enabled."),
    "executors": LazyCommand("executors", "commands", "Connected programs that execute commands."),
    "calls": LazyCommand("calls", "commands", "The record of calls."),
    "stats": LazyCommand(
        "stats",
        "stats",
        "Count calls by tool, provider, key or outcome, with errors, durations and bytes of responses.",
        GatewayCommand,
    ),
    "approvals": LazyCommand("approvals", "commands", "What waits for the decision of another key."),
    "events": LazyCommand("events", "commands", "Audit events: who changed what."),
    "keys": LazyCommand("keys", "commands", "API keys of clients."),
    "me": LazyCommand(
        "keys",
        "me",
        "Show the key in use: its rights, what is left of its rate limit, how much it may see, and warnings.",
        GatewayCommand,
    ),
    "sign-in-link": LazyCommand(
        "sign_in_link",
        "sign_in_link",
        "Make a link that signs a browser in to the web console with the key in use.",
        GatewayCommand,
    ),
    "explain": LazyCommand(
        "explain", "explain", "Explain whether a key may call a tool now, and why or why not.", GatewayCommand
    ),
    "settings": LazyCommand("support", "settings", "List the effective settings.", GatewayCommand),
    "support-bundle": LazyCommand(
        "support",
        "support_bundle",
        "Write settings, state and metrics as JSON without secrets, for somebody who helps.",
        GatewayCommand,
    ),
    "export": LazyCommand(
        "transfer", "export", "Write all providers and tools as JSON, without secrets.", GatewayCommand
    ),
    "import": LazyCommand("transfer", "import_", "Import what `export` wrote.", GatewayCommand),
    "openapi": LazyCommand("openapi", "commands", "OpenAPI documents."),
}


class RootCommand(TyperGroup):
    """All commands. It shows `CommandFailed` as sentences (and in the format of `-o`), and exits with its
    code.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.summary, rich_markup_mode=None))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands."""
        options = (param for param in self.get_params(ctx) if isinstance(param, TyperOption))
        write_section(formatter, ctx, "Options", options)
        self.format_commands(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command (imported now) and the remaining arguments."""
        name, command, others = super().resolve_command(ctx, args)
        return name, command if name is None else load_command(name), others

    def invoke(self, ctx: Any) -> Any:
        """Run the command line; raise typer.Exit with the code of an error that was shown."""
        try:
            return super().invoke(ctx)
        except CommandFailed as failed:
            session: ClientSession = ctx.obj
            session.output.write_problem(failed.problem)
            if failed.hint:
                session.output.note(f"Hint: {failed.hint}")
            elif isinstance(failed, ProblemResponse) and failed.status == 401 and not session.has_key:
                session.output.note(f"Hint: {_NO_KEY_HINT}")
            elif failed.problem.get("hint"):
                session.output.note(f"Hint: {failed.problem['hint']}")
            raise typer.Exit(failed.exit_code) from None


def load_command(name: str) -> Any:
    """Import and return a command of the root by its name."""
    entry = COMMANDS[name]
    command = getattr(import_module(f"app.cli.{entry.module}"), entry.attribute)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=_HELP_OPTIONS)
    if isinstance(command, typer.Typer):
        alone.add_typer(command)
        return get_group(alone).commands[name]
    alone.command(name, cls=entry.kind)(command)
    return get_command(alone)


app = typer.Typer(
    name="utcp-gateway",
    cls=RootCommand,
    # The formatter for markup takes longer to import than most commands take.
    rich_markup_mode=None,
    no_args_is_help=True,
    # A traceback with local variables could show a key.
    pretty_exceptions_enable=False,
    context_settings=_HELP_OPTIONS,
    epilog=EXIT_CODES_HELP,
)


def _show_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(version("utcp-gateway"))
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    url: UrlOption = None,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
    output: FormatOption = None,
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
    options = ConnectionOptions(
        url=url, key=key, key_file=key_file, ca_file=ca_file, output=format_parameters(output, json=json)
    )
    # A program may pass a session of its own.
    ctx.obj = session = ctx.obj or ClientSession()
    session.options = options
    ctx.call_on_close(session.close)

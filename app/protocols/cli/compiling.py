"""Compilation of a `cli` call template into the commands of a call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.formats.utcp.call_template import compile_template
from app.protocols.cli.command_words import Argument, OutputReference, Word, parse_command
from app.protocols.cli.commands import split_command
from app.protocols.cli.manifest_run import ManifestCommand, compile_manifest_command
from app.protocols.cli.record import origin_of
from app.protocols.cli.template import CliTemplate
from app.protocols.shared.programs import ProgramRules
from app.protocols.shared.programs.rules import is_shell


@dataclass(frozen=True, slots=True)
class Step:
    """One command.

    `is_shown`: its output is part of the response. `is_referenced`: a later command inserts its output.
    """

    program: str
    words: tuple[Word, ...]
    is_shown: bool
    is_referenced: bool


@dataclass(frozen=True, slots=True)
class CliTarget:
    """A compiled template. `options`: arguments are appended as `--key value` (UTCP 0.x)."""

    origin: str
    steps: tuple[Step, ...]
    options: bool
    environment: Mapping[str, str] = field(repr=False)
    inherited: frozenset[str]
    folder: str
    manifest: ManifestCommand | None = None
    """The command of a ToolClad manifest, which has no `steps` until a call is made."""


def compile_cli(template: Mapping[str, Any], rules: ProgramRules) -> CliTarget:
    """Return a compiled template; raise InvalidInput, with pointers into it, for what may not be run."""
    model = compile_template(template, CliTemplate)
    origin = origin_of(template)
    if model.toolclad is not None and model.toolclad.command is not None:
        manifest = compile_manifest_command(model.toolclad, rules)
        rules.account()
        return CliTarget(origin, (), False, {}, frozenset(), manifest.folder, manifest)
    commands = {pointer("/commands", number, "command"): one for number, one in enumerate(model.commands)}
    rules.check_texts(
        {
            "/command_name": model.command_name or "",
            **{at: one.command for at, one in commands.items()},
            **{pointer("/env_vars", name): value for name, value in model.env_vars.items()},
        }
    )
    steps = _v0_step(model.command_name, rules) if model.command_name else _steps(model, rules)
    rules.check_names(model.env_vars, at="/env_vars")
    rules.account()
    return CliTarget(
        origin=origin,
        steps=steps,
        options=bool(model.command_name),
        environment=rules.environment(model.env_vars, model.inherit_env_vars, at=""),
        inherited=frozenset(model.inherit_env_vars) - model.env_vars.keys(),
        folder=rules.folder(model.working_dir, at="/working_dir"),
    )


def _v0_step(command: str, rules: ProgramRules) -> tuple[Step, ...]:
    at = "/command_name"
    words = split_command(command, at=at)
    program = rules.program(words[0], at=at)
    if is_shell(program):
        raise _shell_error(at)
    return (Step(program, tuple((word,) for word in words[1:]), is_shown=True, is_referenced=False),)


def _steps(model: CliTemplate, rules: ProgramRules) -> tuple[Step, ...]:
    parsed = []
    for number, command in enumerate(model.commands):
        at = pointer("/commands", number, "command")
        words = parse_command(command.command, step=number, at=at)
        parsed.append((_program(words, rules, at=at), words[1:]))
    last = len(parsed) - 1
    referenced = {
        piece.step
        for _, words in parsed
        for word in words
        for piece in word
        if isinstance(piece, OutputReference)
    }
    return tuple(
        Step(
            program,
            words,
            is_shown=number == last
            if (appended := model.commands[number].append_to_final_output) is None
            else appended,
            is_referenced=number in referenced,
        )
        for number, (program, words) in enumerate(parsed)
    )


def _program(words: tuple[Word, ...], rules: ProgramRules, *, at: str) -> str:
    first = words[0] if words else ()
    if len(first) != 1 or not isinstance(first[0], str):
        field_error = FieldError(at, "It begins with a program, which no argument can choose.")
        raise InvalidInput("The command cannot be read.", errors=[field_error])
    program = rules.program(first[0], at=at)
    placed = any(isinstance(piece, Argument | OutputReference) for word in words for piece in word)
    if placed and is_shell(program):
        raise _shell_error(at)
    return program


def _shell_error(at: str) -> InvalidInput:
    field_error = FieldError(
        at, "A shell would read arguments as commands: name a script or another program."
    )
    return InvalidInput("No argument may be given to a shell.", errors=[field_error])

"""A compiled `[command]`: arguments -> the words of a command, or the environment of an executor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.core.errors import FieldError, InvalidArguments, InvalidInput
from app.core.text import pointer
from app.formats.toolclad.command_words import Word, read_exec_words, split_template
from app.formats.toolclad.conditions import Condition, holds, parse_condition
from app.formats.toolclad.contract import Contract
from app.formats.toolclad.placeholders import (
    Piece,
    Reference,
    fill,
    parse_pieces,
    write_text,
)

ENVIRONMENT_PREFIX: Final = "TOOLCLAD_"
_NUMERIC: Final = frozenset({"integer", "number", "port"})
_FILES: Final = frozenset({"output_file", "evidence_dir", "output_dir"})


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a command that stands where its condition holds."""

    name: str
    condition: Condition
    words: tuple[Word, ...]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class CompiledCommand:
    """The command of a contract. `program` is the word that names the program, `words` are those after it."""

    program: str
    words: tuple[Word, ...]
    is_executor: bool
    contract: Contract
    mappings: Mapping[str, Mapping[str, Fragment]]
    fragments: tuple[Fragment, ...]

    @property
    def takes_arguments(self) -> bool:
        """Whether a word of the command depends on arguments."""
        return any(not isinstance(piece, str) for word in self.words for piece in word.pieces)

    @property
    def uses_files(self) -> bool:
        """Whether the command names the folder or the file of its output."""
        names = {
            piece.name for word in self._list_words() for piece in word.pieces if isinstance(piece, Reference)
        }
        return self.is_executor or bool(names & {f"_{name}" for name in _FILES})

    def arguments(self, given: Mapping[str, Any], injected: Mapping[str, str]) -> list[str]:
        """Return the words after the program; raise InvalidArguments for one that would be an option."""
        if self.is_executor:
            return []
        values = self._list_values(given, injected)
        fragments = self._fill_fragments(values)
        words: list[str] = []
        options_ended = False
        for word in self.words:
            sole = word.sole_reference
            if sole is not None and sole in fragments:
                words += fragments[sole]
                continue
            joined = values | {name: " ".join(one) for name, one in fragments.items()}
            text = fill(word.pieces, joined, {})
            if not text and not word.is_quoted:
                continue
            if not options_ended:
                self._check_option(word, joined)
            options_ended = options_ended or text == "--"
            words.append(text)
        return words

    def environment(self, given: Mapping[str, Any], injected: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of an executor; nothing for a command whose words have the arguments."""
        if not self.is_executor:
            return {}
        values = self._list_values(given, {})
        variables = {
            f"{ENVIRONMENT_PREFIX}ARG_{name.upper()}": text
            for name, text in values.items()
            if name in given or text
        }
        variables[f"{ENVIRONMENT_PREFIX}TOOL_NAME"] = self.contract.tool
        return variables | {
            f"{ENVIRONMENT_PREFIX}{name.upper().lstrip('_')}": text for name, text in injected.items()
        }

    def _list_values(self, given: Mapping[str, Any], injected: Mapping[str, str]) -> dict[str, str]:
        command = self.contract.command
        defaults = {} if command is None else command.defaults
        known = dict.fromkeys(self.contract.arguments, "") | defaults | self.contract.defaults
        present = {name: value for name, value in given.items() if value is not None}
        errors = [
            FieldError(pointer("", name), "Must have no U+0000, which no word of a command can hold.")
            for name, value in present.items()
            if "\x00" in write_text(value)
        ]
        if errors:
            raise InvalidArguments("An argument cannot be given to a program.", errors=errors)
        return {name: write_text(value) for name, value in (known | present).items()} | dict(injected)

    def _fill_fragments(self, values: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the words of the flags and conditionals, by the name of their placeholder."""
        words_by_placeholder: dict[str, list[str]] = {}
        for name, table in self.mappings.items():
            fragment = table.get(values.get(name, ""))
            words = [] if fragment is None else self._fill_fragment(fragment, values, {})
            words_by_placeholder[f"_{name}_flags"] = words_by_placeholder["_scan_flags"] = words
        for fragment in self.fragments:
            words = (
                self._fill_fragment(fragment, values, words_by_placeholder)
                if holds(fragment.condition, values)
                else []
            )
            words_by_placeholder[f"_{fragment.name}"] = words
        return words_by_placeholder

    def _fill_fragment(
        self, fragment: Fragment, values: Mapping[str, str], flags: Mapping[str, list[str]]
    ) -> list[str]:
        words: list[str] = []
        joined = {**values, **{name: " ".join(one) for name, one in flags.items()}}
        for word in fragment.words:
            sole = word.sole_reference
            if sole is not None and sole in flags:
                words += flags[sole]
                continue
            text = fill(word.pieces, joined, {})
            if not text and not word.is_quoted:
                continue
            if "--" not in words:
                self._check_option(word, joined)
            words.append(text)
        return words

    def _check_option(self, word: Word, values: Mapping[str, str]) -> None:
        """Raise InvalidArguments where the text of a word begins with `-`, and that is of an argument."""
        first = next((piece for piece in word.pieces if fill((piece,), values, {})), "")
        if isinstance(first, Reference) and values.get(first.name, "").startswith("-"):
            self._reject_option(first.name)

    def _list_words(self) -> tuple[Word, ...]:
        within = [word for table in self.mappings.values() for one in table.values() for word in one.words]
        return (*self.words, *within, *(word for one in self.fragments for word in one.words))

    def _reject_option(self, name: str) -> None:
        argument = self.contract.arguments.get(name)
        if argument is None or argument.type in _NUMERIC:
            return
        detail = "It begins with `-`, and the command has no `--` before it."
        raise InvalidArguments(
            "The argument would be read as an option.", errors=[FieldError(f"/{name}", detail)]
        )


def compile_command(contract: Contract, *, location: str) -> CompiledCommand:
    """Return the compiled command of a contract; raise InvalidInput, with pointers below `location`."""
    command = contract.command
    if command is None:
        raise InvalidInput(
            "The contract has no command.", errors=[FieldError(location, "Must have a command.")]
        )
    try:
        if command.exec:
            words = read_exec_words(command.exec)
        elif command.template:
            words = split_template(command.template)
        else:
            words = (Word((command.executor,)),) if command.executor else ()
        mappings = {
            name: {value: _build_fragment(name, "", text) for value, text in table.items()}
            for name, table in command.mappings.items()
        }
        fragments = tuple(_build_fragment(one.name, one.when, one.template) for one in command.conditionals)
    except ValueError as error:
        raise InvalidInput("The command cannot be read.", errors=[FieldError(location, str(error))]) from None
    program = words[0].pieces if words else ()
    if len(program) != 1 or not isinstance(program[0], str):
        detail = "It begins with a program, which no argument can choose."
        raise InvalidInput("The command cannot be read.", errors=[FieldError(location, detail)])
    is_executor = not command.exec and not command.template
    return CompiledCommand(program[0], words[1:], is_executor, contract, mappings, fragments)


def get_program(contract: Mapping[str, Any]) -> str:
    """Return the word that names the program of a stored contract, "" where it has none."""
    command = contract.get("command") or {}
    if command.get("exec"):
        return str(command["exec"][0])
    if command.get("template"):
        try:
            words = split_template(str(command["template"]))
        except ValueError:
            return ""
        return "".join(piece for piece in words[0].pieces if isinstance(piece, str)) if words else ""
    return str(command.get("executor") or "")


def _build_fragment(name: str, when: str, text: str) -> Fragment:
    return Fragment(name, parse_condition(when) if when else (), split_template(text), parse_pieces(text))

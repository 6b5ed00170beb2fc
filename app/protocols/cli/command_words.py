"""Parsing of a command of UTCP's `cli` into words, in which each argument stays within its word.

Words are split as a POSIX shell splits them. All other syntax of shells is rejected: there is no shell.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.core.errors import FieldError, InvalidArguments, InvalidInput, UpstreamMalformed
from app.protocols.shared.texts import as_text

# utcp-cli ends a placeholder with UTCP_END, the other protocols of UTCP with UTCP_ARG.
_PLACEHOLDER: Final = re.compile(r"UTCP_ARG_(.+?)_UTCP_(?:END|ARG)")
_OUTPUT: Final = re.compile(r"\$CMD_([0-9]{1,3})_OUTPUT\b|\$\{CMD_([0-9]{1,3})_OUTPUT\}")
_OPERATORS: Final = frozenset("|&;<>()`*\n")
_OPTION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Argument:
    """A placeholder for an argument of the tool."""

    name: str


@dataclass(frozen=True, slots=True)
class OutputReference:
    """A placeholder for the output of an earlier command, without its trailing newlines."""

    step: int


Piece = str | Argument | OutputReference
Word = tuple[Piece, ...]


def parse_command(command: str, *, step: int, at: str) -> tuple[Word, ...]:
    """Return the words of the command with the number `step`; raise InvalidInput for syntax of shells."""
    scanner = _Scanner(command, step, at)
    scanner.run()
    return tuple(scanner.words)


def fill_words(
    words: tuple[Word, ...], arguments: Mapping[str, Any], outputs: Mapping[int, str]
) -> list[str]:
    """Return the words with arguments and outputs inserted.

    Raise InvalidArguments for an argument that is missing or would be read as an option, UpstreamMalformed
    for an output that would.
    """
    filled: list[str] = []
    options_ended = False
    for word in words:
        text = "".join(_text(piece, arguments, outputs) for piece in word)
        first = next((piece for piece in word if piece != ""), "")
        if text.startswith("-") and not isinstance(first, str) and not options_ended:
            _reject_option(first)
        options_ended = options_ended or word == ("--",)
        filled.append(text)
    return filled


def option_words(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the arguments as options, as in UTCP 0.x: `--key value`, `--key` for true, a list repeated.

    A value that begins with `-` becomes `--key=value`, so that it is not an option itself. Raise
    InvalidArguments for a name that is not one of an option.
    """
    for name, value in arguments.items():
        if not _OPTION.fullmatch(name):
            field_error = FieldError(
                f"/{name}", "An option's name has letters, digits, `_`, `.` and `-` only."
            )
            raise InvalidArguments("This is not a name of an option.", errors=[field_error])
        for one in value if isinstance(value, list) else [value]:
            if one is None or one is False:
                continue
            if one is True:
                yield f"--{name}"
                continue
            text = _without_nul(as_text(one), name)
            if text.startswith("-"):
                yield f"--{name}={text}"
            else:
                yield from (f"--{name}", text)


def _text(piece: Piece, arguments: Mapping[str, Any], outputs: Mapping[int, str]) -> str:
    if isinstance(piece, str):
        return piece
    if isinstance(piece, OutputReference):
        output = outputs.get(piece.step, f"$CMD_{piece.step}_OUTPUT")
        if "\x00" in output:
            raise UpstreamMalformed(f"The output of command {piece.step} holds U+0000, which no word can.")
        return output
    if piece.name not in arguments:
        field_error = FieldError(f"/{piece.name}", "The command of this tool needs it.")
        raise InvalidArguments("An argument is missing.", errors=[field_error])
    return _without_nul(as_text(arguments[piece.name]), piece.name)


def _without_nul(text: str, name: str) -> str:
    """Return the text; raise InvalidArguments where it contains U+0000, which ends a word (execve(2))."""
    if "\x00" in text:
        field_error = FieldError(f"/{name}", "A command cannot hold U+0000.")
        raise InvalidArguments("The argument cannot be given to a program.", errors=[field_error])
    return text


def _reject_option(piece: Argument | OutputReference) -> None:
    if isinstance(piece, OutputReference):
        raise UpstreamMalformed(f"The output of command {piece.step} begins with `-`, as an option does.")
    field_error = FieldError(f"/{piece.name}", "It begins with `-`, and the command has no `--` before it.")
    raise InvalidArguments("The argument would be read as an option.", errors=[field_error])


class _Scanner:
    """The parser of one command."""

    def __init__(self, command: str, step: int, at: str) -> None:
        self._command = command
        self._step = step
        self._at = at
        self._quote = ""
        self._word: list[Piece] | None = None
        self.words: list[Word] = []

    def run(self) -> None:
        position = 0
        while position < len(self._command):
            position = self._scan_placeholder(position) or self._scan_character(position)
        if self._quote:
            self._reject("A quote does not end.")
        self._end_word()

    def _scan_placeholder(self, position: int) -> int | None:
        found = _PLACEHOLDER.match(self._command, position)
        if found is not None:
            self._put(Argument(found[1]))
            return found.end()
        if self._quote != "'" and self._command[position] == "$":
            found = _OUTPUT.match(self._command, position)
            number = -1 if found is None else int(found[1] or found[2])
            if found is None or number >= self._step:
                self._reject("`$` stands before CMD_0_OUTPUT and the like of earlier commands only.")
            else:
                self._put(OutputReference(number))
                return found.end()
        return None

    def _scan_character(self, position: int) -> int:
        character = self._command[position]
        following = self._command[position + 1 : position + 2]
        if self._quote:
            if character == self._quote:
                self._quote = ""
            elif self._quote == '"' and character == "\\" and following and following in '"\\$`':
                self._put(following)
                return position + 2
            elif self._quote == '"' and character == "`":
                self._reject("There is no shell that would run a command within a command.")
            else:
                self._put(character)
        elif character in "'\"":
            self._quote = character
            self._put("")
        elif character == "\\" and following:
            self._put(following)
            return position + 2
        elif character in _OPERATORS or (character in "~#" and self._word is None):
            self._reject(f"There is no shell that would understand {character!r}: quote it, or take it out.")
        elif character.isspace():
            self._end_word()
        else:
            self._put(character)
        return position + 1

    def _put(self, piece: Piece) -> None:
        word = self._word
        if word is None:
            word = self._word = []
        if word and isinstance(piece, str) and isinstance(word[-1], str):
            word[-1] += piece
        else:
            word.append(piece)

    def _end_word(self) -> None:
        if self._word is not None:
            self.words.append(tuple(self._word))
            self._word = None

    def _reject(self, detail: str) -> None:
        raise InvalidInput(
            "The command cannot be run without a shell.", errors=[FieldError(self._at, detail)]
        )

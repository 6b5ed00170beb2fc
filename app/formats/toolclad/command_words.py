"""The words of a command: its `exec` array, one word each, or its `template`, which is split at blanks.

Quotes in a template (`'...'`, `"..."`, backslash) work as in a POSIX shell, and nothing else of a shell does:
an operator outside of quotes is rejected, since there is no shell that would run it. The template is split
before values are inserted, so that an argument never becomes several words.
"""

from dataclasses import dataclass
from typing import Final

from app.formats.toolclad.placeholders import Piece, Reference, parse_pieces

_OPERATORS: Final = frozenset("|&;<>()`")
_ESCAPED_IN_QUOTES: Final = frozenset('"\\$`')


@dataclass(frozen=True, slots=True)
class Word:
    """One word. `is_quoted`: it stays where it is empty. A word that is a fragment alone may be several."""

    pieces: tuple[Piece, ...]
    is_quoted: bool = True

    @property
    def sole_reference(self) -> str | None:
        """The name of the placeholder that the whole word consists of, None for other words."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], Reference):
            return self.pieces[0].name
        return None


def read_exec_words(items: list[str]) -> tuple[Word, ...]:
    """Return the words of an `exec` array: each item is one."""
    return tuple(Word(parse_pieces(item)) for item in items)


def split_template(template: str) -> tuple[Word, ...]:
    """Return the words of a template; raise ValueError for an open quote and for operators of shells."""
    scanner = _Scanner(template)
    scanner.run()
    return tuple(scanner.words)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.words: list[Word] = []
        self._text = text
        self._word: list[str] | None = None
        self._is_quoted = False
        self._quote = ""

    def run(self) -> None:
        position = 0
        while position < len(self._text):
            character = self._text[position]
            following = self._text[position + 1 : position + 2]
            if self._is_escape(character, following):
                self._put(following)
                position += 2
                continue
            if self._quote:
                self._read_quoted(character)
            else:
                self._read_unquoted(character)
            position += 1
        if self._quote:
            msg = "A quote does not end."
            raise ValueError(msg)
        self._end_word()

    def _is_escape(self, character: str, following: str) -> bool:
        if character != "\\" or not following or self._quote == "'":
            return False
        return not self._quote or following in _ESCAPED_IN_QUOTES

    def _read_quoted(self, character: str) -> None:
        if character == self._quote:
            self._quote = ""
        else:
            self._put(character)

    def _read_unquoted(self, character: str) -> None:
        if character in "'\"":
            self._quote, self._is_quoted = character, True
            self._put("")
        elif character in _OPERATORS:
            msg = f"There is no shell that would read {character!r}: quote it, or take it out."
            raise ValueError(msg)
        elif character.isspace():
            self._end_word()
        else:
            self._put(character)

    def _put(self, character: str) -> None:
        self._word = [] if self._word is None else self._word
        self._word.append(character)

    def _end_word(self) -> None:
        if self._word is not None:
            self.words.append(Word(parse_pieces("".join(self._word)), self._is_quoted))
        self._word, self._is_quoted = None, False

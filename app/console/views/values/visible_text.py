"""Text of others with its invisible characters shown: controls, bidirectional and zero-width characters.

A description that looks harmless can carry orders for a model in characters that no person sees (tool
poisoning), or be reordered so that it reads differently (CVE-2021-42574). Such characters are replaced by
their code points; those of Unicode's tag block, which mirror ASCII, by the text that they spell.
"""

import re
import unicodedata
from typing import Final

from markupsafe import Markup, escape

_MAX_MARKS: Final = 20
"""Marks in a row; further ones are counted."""
_BLANKS: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f")
"""Letters and marks that are drawn as nothing."""
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS: Final = frozenset("\u200c\u200d")
_EMOJI_STYLES: Final = frozenset("\ufe0e\ufe0f")
_PLAIN: Final = re.compile(r"[\t\n\x20-\x7e\xa0-\xac\xae-\u02ff]*")
_OTHER: Final = re.compile(r"[^\t\n\x20-\x7e\xa0-\xac\xae-\u02ff]")
"""What may be invisible."""
_ITEM: Final = re.compile(r"\s*(?:[-*+•|#>]|[0-9]{1,3}[.)]|\w+:|\s{4})")
_CONTROL_NAMES: Final = {
    "\x00": "NULL", "\x07": "BELL", "\x08": "BACKSPACE", "\x0b": "LINE TABULATION", "\x0c": "FORM FEED",
    "\r": "CARRIAGE RETURN", "\x1b": "ESCAPE", "\x7f": "DELETE", "\x85": "NEXT LINE",
}  # fmt: skip


def visible(text: str) -> Markup:
    """Return a text as HTML, each invisible character as `<span class="invisible" title="U+202E ...">`."""
    if _PLAIN.fullmatch(text):
        return escape(text)
    parts: list[str] = []
    # Where the text begins that is neither escaped nor marked yet.
    rest = 0
    for other in _OTHER.finditer(text):
        position = other.start()
        if position < rest or not _is_invisible(text, position):
            continue
        end = position + 1
        while end < len(text) and _is_invisible(text, end):
            end += 1
        parts += [str(escape(text[rest:position])), _mark_run(text[position:end])]
        rest = end
    parts.append(str(escape(text[rest:])))
    return Markup("".join(parts))  # noqa: S704 - each part is escaped


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text: a line end is a space, as in Markdown, but before items of lists."""
    found = []
    for part in re.split(r"\n[ \t]*\n\s*", text.strip()):
        lines = [line.rstrip() for line in part.split("\n")]
        joined = lines[:1]
        for line in lines[1:]:
            if _ITEM.match(line):
                joined.append(line)
            else:
                joined[-1] += " " + line.strip()
        found.append("\n".join(joined))
    return [one for one in found if one]


def has_invisible(text: str) -> bool:
    """Return whether a text has characters that `visible` marks."""
    return any(_is_invisible(text, other.start()) for other in _OTHER.finditer(text))


def name_of(character: str) -> str:
    """Return the code point and name of a character: `U+202E RIGHT-TO-LEFT OVERRIDE`."""
    name = _CONTROL_NAMES.get(character) or unicodedata.name(character, "")
    return f"U+{ord(character):04X} {name}".rstrip()


def _is_invisible(text: str, position: int) -> bool:
    character = text[position]
    if character in "\t\n" or " " <= character <= "~":
        return False
    if character in _JOINERS:
        return not _is_joining(text, position)
    if character in _EMOJI_STYLES:
        return not (
            position
            and (
                unicodedata.category(text[position - 1]) in ("So", "Sm", "Sk")
                or text[position - 1] in "0123456789#*"
            )
        )
    if "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef":
        return True
    return character in _BLANKS or unicodedata.category(character) in _HIDDEN_CATEGORIES


def _is_joining(text: str, position: int) -> bool:
    """Return whether a joiner stands where writing needs one: in an emoji, or in a word of some scripts."""
    if not 0 < position < len(text) - 1:
        return False
    before, after = text[position - 1], text[position + 1]
    if text[position] == "\u200d" and unicodedata.category(after) == "So":
        return unicodedata.category(before) in ("So", "Sk") or before in _EMOJI_STYLES
    return all(
        "\u0600" <= one <= "\u0dff" and unicodedata.category(one)[0] in "LM" for one in (before, after)
    )


def _mark_run(run: str) -> str:
    """Return a run of invisible characters as HTML."""
    spelled = "".join(chr(ord(one) - 0xE0000) for one in run if "\U000e0020" <= one <= "\U000e007e")
    if spelled:
        return str(
            Markup('<span class="invisible" title="{}">{}</span>').format(
                f"U+E0000 to U+E007F TAG characters: {len(run)}", f"hidden text: {spelled[:2_000]}"
            )
        )
    shown = [
        str(Markup('<span class="invisible" title="{}">U+{:04X}</span>').format(name_of(one), ord(one)))
        for one in run[:_MAX_MARKS]
    ]
    if len(run) > _MAX_MARKS:
        rest = len(run) - _MAX_MARKS
        shown.append(str(Markup('<span class="invisible">+{}</span>').format(rest)))
    return "".join(shown)

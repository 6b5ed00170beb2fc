"""Differences between two versions of a text, word by word, and of a JSON value, member by member."""

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from app.console.views.values.visible_text import visible
from app.core.text import pointer

_MAX_WORDS: Final = 1_500
"""Words that are compared; difflib takes quadratic time. Longer texts are replaced as a whole."""
_MAX_CHANGES: Final = 200
_MAX_DEPTH: Final = 60
_WORD: Final = re.compile(r"\s+|\w+|[^\w\s]")
_ABSENT: Final = object()


def _(message: str) -> str:
    """Mark a message for translation."""
    return message


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a JSON value at a pointer: `kind` is added, removed or changed; a value may be None."""

    pointer: str
    kind: str
    before: Any = None
    after: Any = None


def word_diff(before: str, after: str, *, gettext: Callable[[str], str] = str) -> Markup:
    """Return both texts as one: `<del>` is what was removed, `<ins>` what was added.

    Screen readers do not announce these elements, so each has a hidden text that says which it is.
    """
    old, new = _WORD.findall(before), _WORD.findall(after)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    parts = [visible("".join(old[:start]))]
    parts += _compare_words(old[start : len(old) - end], new[start : len(new) - end], gettext)
    parts.append(visible("".join(old[len(old) - end :])))
    return Markup("").join(parts)


def _compare_words(old: list[str], new: list[str], gettext: Callable[[str], str]) -> list[Markup]:
    if max(len(old), len(new)) > _MAX_WORDS:
        return [_mark_text("del", "".join(old), gettext), _mark_text("ins", "".join(new), gettext)]
    parts: list[Markup] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            parts.append(visible("".join(old[a:b])))
            continue
        parts += [
            _mark_text("del", "".join(old[a:b]), gettext),
            _mark_text("ins", "".join(new[c:d]), gettext),
        ]
    return parts


def _mark_text(element: str, text: str, gettext: Callable[[str], str]) -> Markup:
    if not text:
        return Markup("")
    said = gettext(_("removed:") if element == "del" else _("added:"))
    start, end = Markup("<del>"), Markup("</del>")
    if element == "ins":
        start, end = Markup("<ins>"), Markup("</ins>")
    return start + Markup('<span class="visually-hidden">{} </span>{}').format(said, visible(text)) + end


def json_changes(before: Any, after: Any, limit: int = _MAX_CHANGES) -> list[Change]:
    """Return how a JSON value changed, at most `limit` changes; each is as deep as possible.

    Arrays without objects, such as `required` and `enum`, are compared as sets: their order is not reported.
    """
    changes: list[Change] = []
    for change in _list_changes(before, after, "", 0):
        changes.append(change)
        if len(changes) >= limit:
            break
    return changes


def _list_changes(before: Any, after: Any, at: str, depth: int) -> Iterator[Change]:
    if type(before) is type(after) and before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and depth < _MAX_DEPTH:
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _compare_member(
                before.get(key, _ABSENT), after.get(key, _ABSENT), pointer(at, key), depth
            )
    elif isinstance(before, list) and isinstance(after, list) and depth < _MAX_DEPTH:
        if any(isinstance(one, dict | list) for one in (*before, *after)):
            for index in range(max(len(before), len(after))):
                old = before[index] if index < len(before) else _ABSENT
                new = after[index] if index < len(after) else _ABSENT
                yield from _compare_member(old, new, pointer(at, index), depth)
        else:
            old_keys, new_keys = {_build_key(one) for one in before}, {_build_key(one) for one in after}
            yield from (
                Change(at, "removed", before=one) for one in before if _build_key(one) not in new_keys
            )
            yield from (Change(at, "added", after=one) for one in after if _build_key(one) not in old_keys)
    else:
        yield Change(at, "changed", before, after)


def _compare_member(old: Any, new: Any, pointer: str, depth: int) -> Iterator[Change]:
    if old is _ABSENT:
        yield Change(pointer, "added", after=new)
    elif new is _ABSENT:
        yield Change(pointer, "removed", before=old)
    else:
        yield from _list_changes(old, new, pointer, depth + 1)


def _build_key(value: Any) -> tuple[str, Any]:
    return type(value).__name__, value

"""JSON as HTML: a tree that folds without script, and text with syntax colours (classes only)."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from markupsafe import Markup, escape

from app.console.views.values.visible_text import visible

MAX_NODES: Final = 500
_MAX_DEPTH: Final = 40
_MAX_STRING: Final = 2_000
_MAX_KEY: Final = 200
_MAX_COLOURED: Final = 20_000
# A string without an end goes up to that of the text, so that no character is read more than twice.
_TOKEN: Final = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*+"(?=\s*:))|(?P<string>"(?:[^"\\]|\\.)*+"?)'
    r"|(?P<number>-?[0-9][0-9.eE+-]*)|(?P<keyword>\b(?:true|false|null)\b)",
    re.DOTALL,
)


def _(message: str) -> str:
    """Mark a message for translation."""
    return message


def json_tree(
    value: Any, *, open_levels: int = 3, max_nodes: int = MAX_NODES, gettext: Callable[[str], str] = str
) -> Markup:
    """Return a JSON value as nested `<details>`, of which the first `open_levels` levels are open.

    After `max_nodes` values it says how many members of an object or array are not shown; strings are cut
    after 2,000 characters. The whole value is the raw text's to show.
    """
    tree = _Tree(max_nodes, open_levels, gettext)
    # Each part is escaped by the tree.
    return Markup('<div class="json-tree">') + Markup("".join(tree.value(value, "", 0))) + Markup("</div>")  # noqa: S704


def highlighted(text: str) -> Markup:
    """Return JSON text as HTML with a class for each kind of token, for a `<pre>`; a long one without."""
    if len(text) > _MAX_COLOURED:
        return visible(text)
    parts: list[str] = []
    end = 0
    for token in _TOKEN.finditer(text):
        parts.append(str(visible(text[end : token.start()])))
        parts.append(f'<span class="json-{token.lastgroup}">{visible(token[0])}</span>')
        end = token.end()
    parts.append(str(visible(text[end:])))
    return Markup("".join(parts))  # noqa: S704 - each part is escaped


class _Tree:
    def __init__(self, nodes: int, open_levels: int, gettext: Callable[[str], str]) -> None:
        self._left = nodes
        self._open_levels = open_levels
        self._gettext = gettext

    def value(self, value: Any, label: str, depth: int) -> list[str]:
        """Return the HTML of a value; `label` is the HTML of its key."""
        self._left -= 1
        if not isinstance(value, dict | list) or not value:
            return [f'<div class="json-line">{label}{self._render_scalar(value)}</div>']
        if depth >= _MAX_DEPTH:
            return [f'<div class="json-line">{label}<span class="json-more">…</span></div>']
        return self._render_container(value, label, depth)

    def _render_container(self, value: dict[str, Any] | list[Any], label: str, depth: int) -> list[str]:
        is_open = " open" if depth < self._open_levels else ""
        count = self._gettext(_("%(count)s members") if isinstance(value, dict) else _("%(count)s items"))
        brackets = "{}" if isinstance(value, dict) else "[]"
        size = escape(count % {"count": len(value)})
        summary = f'{label}<span class="json-count">{brackets} {size}</span>'
        parts = [f'<details class="json-node"{is_open}><summary>{summary}</summary><ul>']
        members = value.items() if isinstance(value, dict) else enumerate(value)
        shown = 0
        for key, member in members:
            if self._left <= 0:
                break
            shown += 1
            name = str(key)
            text = visible(name if len(name) <= _MAX_KEY else name[:_MAX_KEY] + "…")
            kind = "json-key" if isinstance(value, dict) else "json-index"
            parts += ["<li>", *self.value(member, f'<span class="{kind}">{text}</span> ', depth + 1), "</li>"]
        if shown < len(value):
            more = self._gettext(_("%(count)s more are not shown")) % {"count": len(value) - shown}
            parts.append(f'<li class="json-more">{escape(more)}</li>')
        parts.append("</ul></details>")
        return parts

    def _render_scalar(self, value: Any) -> str:
        if isinstance(value, str):
            rest = len(value) - _MAX_STRING
            text = visible(value[:_MAX_STRING])
            more = self._gettext(_("%(count)s more characters")) % {"count": rest} if rest > 0 else ""
            tail = f' <span class="json-more">… {escape(more)}</span>' if more else ""
            return f'<span class="json-string">{text}</span>{tail}'
        kind = "keyword" if value is None or isinstance(value, bool) else "number"
        if isinstance(value, dict | list):
            kind = "count"
        return f'<span class="json-{kind}">{escape(json.dumps(value))}</span>'

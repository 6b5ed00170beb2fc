"""Values as HTML, made on the server: JSON as a tree or coloured text, differences, invisible characters.

Everything here escapes what it is given. Sizes are bounded, because upstreams write these texts.
"""

from app.console.views.values.differences import Change, json_changes, word_diff
from app.console.views.values.json_tree import highlighted, json_tree
from app.console.views.values.visible_text import has_invisible, paragraphs, visible

__all__ = [
    "Change",
    "has_invisible",
    "highlighted",
    "json_changes",
    "json_tree",
    "paragraphs",
    "visible",
    "word_diff",
]

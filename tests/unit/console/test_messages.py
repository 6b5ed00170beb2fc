"""The messages of the console: each has its German, and no visible text is without a mark."""

import re
from html.parser import HTMLParser
from typing import Final

import pytest
from babel.messages.catalog import Catalog
from jinja2 import nodes

from app.console.templating import environment
from scripts.console_messages import CONSOLE, texts_of, untranslated, updated
from tests.harness.cases import for_each

TEMPLATES: Final = sorted(path.name for path in (CONSOLE / "templates").glob("*.html"))
# A page for those who write the console, with samples.
UNTRANSLATED_TEMPLATES: Final = {"design.html"}
# Names, code and units, the same in every language.
NAMES: Final = {
    "utcp-gateway", "· utcp-gateway", "utcp-gateway sign-in-link", "utcp-gateway plugins enable ", "Ctrl K",
    "UTC", "PostgreSQL", "Redis", "Python", "GraphQL", "null", "providers:write", "credentials:write",
    "voucher, coupon, gift card", "p50", "p95",
}  # fmt: skip
_VISIBLE_ATTRIBUTES: Final = {"alt", "aria-label", "data-label", "placeholder", "title"}
_COMMENT: Final = re.compile(r"\{#.*?#\}", re.DOTALL)
_TRANSLATED: Final = re.compile(r"\{%-?\s*trans\b.*?\bendtrans\s*-?%\}", re.DOTALL)
_JINJA: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
# Of macros that write attributes into the tags of their callers.
_ATTRIBUTES: Final = re.compile(r'\s*(?:[\w-]*="[^"]*"\s*)+(?:required\s*)?')
_WORDS: Final = re.compile(r"[A-Z][a-z]|.*[a-z] [a-z]", re.DOTALL)
_PLACEHOLDER: Final = re.compile(r"%\(\w+\)\w|%%")


@pytest.fixture(scope="module")
def german() -> Catalog:
    return updated("de")


def test_that_each_message_has_its_german(german: Catalog) -> None:
    assert untranslated(german) == []


def test_that_the_files_are_what_the_script_writes(german: Catalog) -> None:
    """`make messages` writes them."""
    text, compiled = texts_of(german)
    assert (CONSOLE / "locale" / "de.po").read_bytes() == text
    assert (CONSOLE / "locale" / "de.mo").read_bytes() == compiled


def test_that_placeholders_are_the_same(german: Catalog) -> None:
    differing = [
        message.id
        for message in german
        if message.id
        for english, translated in zip(_forms(message.id), _forms(message.string), strict=True)
        if sorted(_PLACEHOLDER.findall(english)) != sorted(_PLACEHOLDER.findall(translated))
    ]
    assert differing == []


def test_that_no_message_is_fuzzy(german: Catalog) -> None:
    """The compiled form does not have those."""
    assert [message.id for message in german if message.id and message.fuzzy] == []


@for_each("name", [one for one in TEMPLATES if one not in UNTRANSLATED_TEMPLATES])
def test_that_visible_texts_are_marked(name: str) -> None:
    source = (CONSOLE / "templates" / name).read_text(encoding="utf-8")
    assert unmarked(source) == []


@for_each(
    ("source", "found"),
    [
        ("<p>Plain text</p>", ["Plain text"]),
        ("<p>{{ _('Marked') }} and not</p>", ["and not"]),
        ("<p>{% trans %}Marked too{% endtrans %} {# A comment #}</p>", []),
        ('<input aria-label="Label" data-fragment="results" placeholder="{{ _(\'Marked\') }}">', ["Label"]),
        ("{{ ui.badge('Failed', 'bad') }}", ["Failed"]),
        ("{{ ui.badge(_('Failed'), 'bad') }}", []),
        ("{{ 'not found' if missing else ngettext('%(num)s tool', '%(num)s tools', count) }}", ["not found"]),
        ("<dt>Redis</dt>", []),
    ],
)
def test_what_is_found_as_unmarked(source: str, found: list[str]) -> None:
    assert unmarked(source) == found


def unmarked(source: str) -> list[str]:
    """Return the visible texts of a template that are not marked for translation."""
    plain = _TRANSLATED.sub("", _COMMENT.sub("", source))
    reader = _Texts()
    reader.feed(_JINJA.sub("", plain))
    reader.close()
    texts = reader.texts + list(_constants(environment("en").parse(plain)))
    return [text for text in texts if text not in NAMES]


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(*(value or "" for name, value in attrs if name in _VISIBLE_ATTRIBUTES))

    def handle_data(self, data: str) -> None:
        if not _ATTRIBUTES.fullmatch(data):
            self._add(data)

    def _add(self, *texts: str) -> None:
        self.texts += [text.strip() for text in texts if re.search(r"[A-Za-z]{2}", text)]


def _constants(node: nodes.Node) -> list[str]:
    """Return the texts of expressions that look like words, outside of what marks them."""
    if isinstance(node, nodes.Call) and getattr(node.node, "name", "") in {
        "_",
        "gettext",
        "ngettext",
        "pgettext",
    }:
        inner = [one for one in node.args if not isinstance(one, nodes.Const)]
        return [text for one in (*inner, *node.kwargs) for text in _constants(one)]
    if isinstance(node, nodes.Const):
        return [node.value] if isinstance(node.value, str) and _WORDS.match(node.value) else []
    return [text for one in node.iter_child_nodes() for text in _constants(one)]


def _forms(texts: str | list[str] | tuple[str, ...] | None) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts or ())

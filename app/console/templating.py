"""The Jinja environment of the console: one per language, with the filters that its templates use."""

import gettext
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from app.console.static_files import StaticFiles
from app.console.views.values import visible
from app.core import exact_json

LANGUAGES: Final[Mapping[str, str]] = {"en": "English", "de": "Deutsch"}
"""The languages of the console, by their tags, with their own names."""

NONE: Final = "\u2013"
"""What stands for no value."""

_HERE: Final = Path(__file__).parent
_FRAME: Final = frozenset({"title", "scripts", "head", "content", "view"})
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|$)")
_UNITS: Final = ((60, "second"), (60, "minute"), (24, "hour"), (30, "day"), (12, "month"), (10_000, "year"))


@cache
def environment(language: str) -> Environment:
    """Return the environment for a language of LANGUAGES; undefined names in templates are errors."""
    texts = translations(language)
    jinja = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n", "jinja2.ext.do", "jinja2.ext.loopcontrols"],
    )
    jinja.install_gettext_callables(  # type: ignore[attr-defined]
        texts.gettext, texts.ngettext, newstyle=True, pgettext=texts.pgettext
    )
    jinja.filters["ago"] = lambda value, now=None: time_element(value, texts, now)
    jinja.filters["number"] = lambda value: number(value, language)
    jinja.filters["milliseconds"] = lambda value: milliseconds(value, language)
    jinja.filters["bytes"] = lambda value: byte_size(value, language)
    jinja.filters["percent"] = lambda value: percentage(value, language)
    jinja.filters["json"] = json_text
    jinja.filters["first_sentence"] = first_sentence
    jinja.filters["replace_word"] = replace_word
    jinja.filters["visible"] = lambda text: visible(str(text or ""))
    jinja.globals["static"] = static_url
    jinja.globals["icon"] = icon
    jinja.globals["language"] = language
    jinja.globals["languages"] = LANGUAGES
    return jinja


@cache
def translations(language: str) -> gettext.NullTranslations:
    """Return the messages of a language; English is the language of the templates."""
    path = _HERE / "locale" / f"{language}.mo"
    if language == "en" or not path.is_file():
        return gettext.NullTranslations()
    with path.open("rb") as file:
        return gettext.GNUTranslations(file)


def template(name: str, language: str) -> Template:
    """Return a template by its path below `templates`."""
    return environment(language).get_template(name)


def render_block(name: str, block: str, language: str, context: Mapping[str, Any]) -> str | None:
    """Return one block of a template as HTML; None where the template has no such block, and for the blocks
    of the frame, which need what the template does outside of them.
    """
    if block in _FRAME:
        return None
    found = template(name, language)
    render: Callable[..., Any] | None = found.blocks.get(block)
    return None if render is None else "".join(render(found.new_context(dict(context))))


def parsed_time(value: str | datetime) -> datetime:
    """Return a time of the API (RFC 3339) with its time zone."""
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def time_element(
    value: str | datetime | None, texts: gettext.NullTranslations, now: datetime | None = None
) -> Markup:
    """Return a time as an element: relative text, and the exact time in UTC as its title; a dash for None."""
    if value is None or value == "":
        return Markup('<span class="muted">{}</span>').format(NONE)
    moment = parsed_time(value).astimezone(UTC)
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    exact = moment.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        moment.isoformat().replace("+00:00", "Z"), exact, relative_time(seconds, texts)
    )


def relative_time(seconds: float, texts: gettext.NullTranslations) -> str:
    """Return how long ago something was, or in how long it will be, where `seconds` is negative."""
    amount = abs(seconds)
    if amount < 5:
        return texts.gettext("just now")
    unit = "second"
    for size, name in _UNITS:
        unit = name
        if amount < size:
            break
        amount /= size
    count = int(amount)
    past, future = _choose_phrases(unit, count, texts)
    return (past if seconds >= 0 else future) % {"count": count}


def _choose_phrases(unit: str, count: int, texts: gettext.NullTranslations) -> tuple[str, str]:
    """Return the phrases for a unit: ago, and from now."""
    n = texts.ngettext
    match unit:
        case "second":
            return n("%(count)s second ago", "%(count)s seconds ago", count), n(
                "in %(count)s second", "in %(count)s seconds", count
            )
        case "minute":
            return n("%(count)s minute ago", "%(count)s minutes ago", count), n(
                "in %(count)s minute", "in %(count)s minutes", count
            )
        case "hour":
            return n("%(count)s hour ago", "%(count)s hours ago", count), n(
                "in %(count)s hour", "in %(count)s hours", count
            )
        case "day":
            return n("%(count)s day ago", "%(count)s days ago", count), n(
                "in %(count)s day", "in %(count)s days", count
            )
        case "month":
            return n("%(count)s month ago", "%(count)s months ago", count), n(
                "in %(count)s month", "in %(count)s months", count
            )
    return n("%(count)s year ago", "%(count)s years ago", count), n(
        "in %(count)s year", "in %(count)s years", count
    )


def number(value: float | None, language: str) -> str:
    """Return a number with separators of thousands; a dash for None."""
    if value is None:
        return NONE
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
    return text.translate(str.maketrans(",.", ".,")) if language == "de" else text


def milliseconds(value: float | None, language: str) -> str:
    """Return a duration in milliseconds, in seconds from 10,000 ms; a dash for None."""
    if value is None:
        return NONE
    if value >= 10_000:
        return number(round(value / 1000, 1), language) + " s"
    return number(round(value) if value >= 10 else round(float(value), 1), language) + " ms"


def byte_size(value: float | None, language: str) -> str:
    """Return a size in B, kB, MB or GB (powers of 1,000); a dash for None."""
    if value is None:
        return NONE
    size, unit = float(value), "B"
    for unit in ("B", "kB", "MB", "GB"):  # noqa: B007 - the last one is used
        if size < 1000:
            break
        size /= 1000
    return number(int(size) if unit == "B" else round(size, 1), language) + f" {unit}"


def percentage(value: float | None, language: str) -> str:
    """Return a share (0 to 1) in percent; a dash for None."""
    if value is None:
        return NONE
    percent = value * 100
    shown = round(percent) if percent in (0, 100) or percent >= 10 else round(percent, 1)
    return number(shown, language) + " %"


def json_text(value: Any) -> str:
    """Return a value as indented JSON."""
    return exact_json.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()


def first_sentence(text: str | None, limit: int = 160) -> str:
    """Return the first sentence of a text, of at most `limit` characters; not a title before it, which is a
    first paragraph without the end of a sentence.
    """
    first, _, rest = (text or "").strip().partition("\n\n")
    has_title = bool(rest.strip()) and _SENTENCE_END.search(first) is None
    line = " ".join((rest if has_title else first).split())
    end = _SENTENCE_END.search(line)
    sentence = line[: end.end()] if end else line
    return sentence if len(sentence) <= limit else sentence[: limit - 1].rstrip() + "…"


def replace_word(text: str, word: str, other: str) -> str:
    """Return a text in which one word is replaced by another, in upper or lower case."""
    return re.sub(rf"\b{re.escape(word)}\b", lambda _: other, text, flags=re.IGNORECASE)


@pass_context
def static_url(context: Context, name: str) -> str:
    """Return the path of a static file, with the root path of the gateway."""
    return str(context["root"]) + StaticFiles.shared().url(name)


@pass_context
def icon(context: Context, name: str) -> Markup:
    """Return an icon of the sprite; it is decoration, so the text beside it or a label says what it means."""
    return Markup('<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#{}"/></svg>').format(
        static_url(context, "icons.svg"), name
    )

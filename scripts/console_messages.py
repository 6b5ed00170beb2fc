"""Write the messages of the console: `make messages`.

`app/console/locale/de.po` has the German of every message that templates and modules of the console mark
(`_`, `gettext`, `ngettext`, `pgettext`), and of the descriptions of scopes; `de.mo` is its compiled form,
which the gateway reads with the standard library. New messages are added without a translation, those that
are gone are removed, and a test fails while one is missing.
"""

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from app.security.scopes import DESCRIPTIONS

CONSOLE: Final = Path(__file__).parents[1] / "app" / "console"
_METHODS: Final = [("**.py", "python"), ("**.html", "jinja2")]
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "**.html": {
        "trimmed": "true",
        "newstyle_gettext": "true",
        "silent": "false",
        "extensions": "jinja2.ext.i18n,jinja2.ext.do,jinja2.ext.loopcontrols",
    }
}
_KEYWORDS: Final[dict[str, Any]] = {
    "_": None,
    "gettext": None,
    "ngettext": (1, 2),
    "n": (1, 2),
    "pgettext": ((1, "c"), 2),
}
_NO_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)


def template_catalog() -> Catalog:
    """Return a catalog of all messages that the console shows, in the order of files and lines."""
    found = Catalog(project="utcp-gateway", fuzzy=False)
    for name, _, message, _, context in extract_from_dir(
        str(CONSOLE), _METHODS, options_map=_OPTIONS, keywords=_KEYWORDS
    ):
        found.add(message, None, [(name, 0)], context=context)
    for text in DESCRIPTIONS.values():
        found.add(text, None, [("scopes", 0)])
    return found


def updated(language: str) -> Catalog:
    """Return the catalog of a language with exactly the messages that the console has."""
    path = CONSOLE / "locale" / f"{language}.po"
    catalog = Catalog(locale=language, project="utcp-gateway", fuzzy=False)
    if path.is_file():
        catalog = read_po(io.BytesIO(path.read_bytes()), locale=language)
    catalog.update(template_catalog(), no_fuzzy_matching=True)
    catalog.obsolete.clear()
    return catalog


def untranslated(catalog: Catalog) -> list[str]:
    """Return the messages of a catalog that have no translation, or only a part of their plural forms."""
    return [
        str(message.id)
        for message in catalog
        if message.id
        and not (all(message.string) if isinstance(message.string, tuple | list) else message.string)
    ]


def texts_of(catalog: Catalog) -> tuple[bytes, bytes]:
    """Return a catalog as the text of its `.po` and of its `.mo`, the same for the same messages."""
    catalog.creation_date = catalog.revision_date = _NO_TIME
    text, compiled = io.BytesIO(), io.BytesIO()
    write_po(text, catalog, width=110, omit_header=True, include_lineno=False, sort_output=True)
    write_mo(compiled, catalog)
    head = (
        f'msgid ""\nmsgstr ""\n"Language: {catalog.locale_identifier}\\n"\n"MIME-Version: 1.0\\n"\n'
        '"Content-Type: text/plain; charset=utf-8\\n"\n"Content-Transfer-Encoding: 8bit\\n"\n'
        f'"Plural-Forms: {catalog.plural_forms}\\n"\n\n'
    )
    return head.encode() + text.getvalue(), compiled.getvalue()


def main() -> None:
    """Write `de.po` and `de.mo`, and print what is not translated."""
    catalog = updated("de")
    text, compiled = texts_of(catalog)
    (CONSOLE / "locale").mkdir(exist_ok=True)
    (CONSOLE / "locale" / "de.po").write_bytes(text)
    (CONSOLE / "locale" / "de.mo").write_bytes(compiled)
    for message in untranslated(catalog):
        print(f"not translated: {message}")  # noqa: T201 - it is the output of a program


if __name__ == "__main__":
    main()

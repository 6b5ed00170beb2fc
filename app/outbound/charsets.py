"""The charset of an upstream's text, from a list of those that decode in linear time to well-formed text.

Python knows many more codecs by the names that a Content-Type may carry: `punycode` is quadratic (2.5 s for
200 KB), `utf-7` and `unicode_escape` make lone surrogates, and others are no charsets at all.
"""

import re
from typing import Final

_KNOWN: Final = re.compile(
    r"utf-?8|utf-?16(-?[lb]e)?|utf-?32(-?[lb]e)?|(us-)?ascii|latin-?1|iso-?8859-\d{1,2}|(cp|windows-)125[0-8]"
    r"|shift-?jis|euc-?jp|iso-2022-jp|gb18030|gbk|gb2312|big5|euc-?kr|koi8-[ru]"
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def charset_of(media_type: str) -> str | None:
    """The codec of a Content-Type's charset; None where it names none, or none that is known here."""
    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'").lower().replace("_", "-")
            if _KNOWN.fullmatch(charset):
                return charset.replace("windows-", "cp")
    return None


def decoded(body: bytes, charset: str) -> str:
    """The text, without lone surrogates. Raises UnicodeDecodeError where it is in another charset."""
    try:
        text = body.decode(charset)
    except LookupError:
        # Of ISO 8859 there is no part 12, nor any above 16.
        text = body.decode()
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)

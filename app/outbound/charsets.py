"""The charset of an upstream's text, from an allow-list of those that decode in linear time to valid text.

Python has codecs for many more names that a Content-Type may carry: `punycode` is quadratic (2.5 s for
200 KB), `utf-7` and `unicode_escape` produce lone surrogates, and others are not charsets at all.
"""

import re
from typing import Final

_ALLOWED: Final = re.compile(
    r"utf-?8|utf-?16(-?[lb]e)?|utf-?32(-?[lb]e)?|(us-)?ascii|latin-?1|iso-?8859-\d{1,2}|(cp|windows-)125[0-8]"
    r"|shift-?jis|euc-?jp|iso-2022-jp|gb18030|gbk|gb2312|big5|euc-?kr|koi8-[ru]"
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def charset_of(media_type: str) -> str | None:
    """Return the Python codec of a Content-Type's charset; None if it has none, or an unknown one."""
    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'").lower().replace("_", "-")
            if _ALLOWED.fullmatch(charset):
                return charset.replace("windows-", "cp")
    return None


def decode_text(body: bytes, charset: str) -> str:
    """Return the text, lone surrogates replaced. Raises UnicodeDecodeError for bytes of another charset."""
    try:
        text = body.decode(charset)
    except LookupError:
        # ISO 8859 has no part 12, and none above 16.
        text = body.decode()
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)

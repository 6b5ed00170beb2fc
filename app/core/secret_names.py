"""Which names stand for secrets: the one vocabulary of masking, of conversion, of mocks and of the console.

is_secret_name       the name ends with a word, for masking: `X-Api-Key`, `db_password`, `page_token`
is_secret_header     likewise, but for tokens against forged requests: not `X-CSRF-Token`
is_credential_name   the word alone, or behind a usual qualifier: `access_token`, not `page_token`
may_name_secret      a part of a word anywhere in a name, for what is kept: `code`, `sig`, `mykey`
may_hold_secret      a word anywhere in a text
"""

import re
from functools import lru_cache
from typing import Final

# Names are compared in lower case and without separators.
_WORDS: Final = (
    "accesskey",
    "apikey",
    "appkey",
    "authkey",
    "authorization",
    "clientassertion",
    "cookie",
    "credential",
    "hmac",
    "jwt",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "sessionid",
    "signature",
    "subscriptionkey",
    "token",
)
_OF_THE_GATEWAY: Final = ("databaseurl", "dsn", "otlpheader", "redisurl", "sealingkey")
"""Endings of the names of the gateway's own settings, whose values have passwords in them."""
_STEMS: Final = (
    *("assertion", "auth", "code", "cookie", "credential", "hmac", "jwt", "key"),
    *("pass", "pwd", "secret", "session", "sig", "token"),
)
_QUALIFIER: Final = re.compile(
    r"(?:access|api|app|auth|bearer|client|id|ocpapim|personal|private|proxy|refresh|security|session|set|x)*"
)
_SEPARATORS: Final = re.compile(r"[-_.\s]")
WORDS_PATTERN: Final = (
    r"access[_-]?key|api[_-]?key|private[_-]?key|passw(?:or)?d|pwd|passphrase|secret|token|signature|jwt|hmac"
)
"""The words that are looked for in texts, as a regular expression that ignores case."""
_IN_TEXT: Final = re.compile(rf"{WORDS_PATTERN}|passw|authorization", re.IGNORECASE)


@lru_cache(maxsize=4_096)
def is_secret_name(name: str) -> bool:
    """Return whether a field of this name is always masked: its name ends with a word of the vocabulary."""
    return _fold(name).removesuffix("s").endswith(_WORDS + _OF_THE_GATEWAY)


def is_secret_header(name: str) -> bool:
    """Return whether a header, or a variable, of this name holds a secret.

    Tokens against forged requests are none, and a plural (`tokens`) is a list or an address.
    """
    folded = _fold(name)
    return folded.endswith(_WORDS) and "csrf" not in folded and "xsrf" not in folded


def is_credential_name(name: str) -> bool:
    """Return whether a parameter, header or field of this name authenticates a client.

    A cursor (`page_token`) does not.
    """
    folded = _fold(name)
    return any(
        folded.endswith(word) and _QUALIFIER.fullmatch(folded.removesuffix(word)) is not None
        for word in _WORDS
    )


def may_name_secret(name: str) -> bool:
    """Return whether a name has a part of a word for a secret: rather too often than too rarely."""
    folded = _fold(name)
    return any(stem in folded for stem in _STEMS)


def may_hold_secret(text: str) -> bool:
    """Return whether a text has a word for a secret in it."""
    return _IN_TEXT.search(text) is not None


def _fold(name: str) -> str:
    return _SEPARATORS.sub("", name.lower())

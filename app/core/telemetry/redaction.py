"""Redaction of what a log line must not contain: by type, by the name of its field, by shape and by value.

    type     anything with `reveal` or `get_secret_value`                    ***
    name     authorization, cookie, *password, *secret, *token, ...          ***
    shape    the query and the user information of a URL, `Bearer ...`,      ***
             `password=...`, JWTs, keys of well-known services, API keys of the gateway
    value    every secret that this process has revealed (security.masking)  ***

Names and types are checked in the structured event; shapes and values there too, before anything is escaped,
and again in the finished line, which also contains the messages of libraries.
"""

import re
from collections.abc import Callable
from typing import Any, Protocol

from app.core.secret_names import WORDS_PATTERN, is_secret_name

MASK = "***"
TextFilter = Callable[[str], str]
_MAX_DEPTH = 6
_PATH_NAMES = frozenset({"path", "url", "target", "raw_path", "uri"})
_SHAPES = re.compile(
    r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]{1,20}://)(?:[^\s/?#\"'@]{1,2000}@)?(?P<rest>[^\s?#\"']*)(?P<query>\?[^\s#\"']*)?"
    r"|(?P<kind>\b[Bb]earer|\b[Bb]asic)\s+[A-Za-z0-9._~+/=-]{8,}"
    r"|(?P<key>ugw_[A-Za-z0-9]{12})_[A-Za-z0-9]+"
    # `name=value` and `"name": "value"`; a name that only contains such a word (`tokens_used`) does not
    # match.
    rf"|(?P<name>\b[\w-]{{0,40}}?(?:{WORDS_PATTERN})(?:\\?[\"'])?\s?[=:]\s?)"
    r"(?:\\?[\"'])?[^\s&,;\"'\\}{*]{4,}"
    # A session of the console, and the token of a sign-in link (`app.access.sessions.texts`).
    r"|\bug[sl]_[A-Za-z0-9_-]{20,}"
    # A JWT (RFC 7519), and the prefixes that services give to their keys so that scanners recognise them.
    r"|\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"
    r"|\b(?:AKIA[A-Z0-9]{16}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abeprs]-[\w-]{10,}|[rs]k[_-](?:live[_-]|test[_-])?[A-Za-z0-9_-]{20,})",
    re.IGNORECASE,
)

_PARAMETER = re.compile(r"([?&;][^=&;]{1,100})=([^&;]*)")


class TextMasker(Protocol):
    """Masks known secret values in a text: `security.masking.Masker`."""

    def mask(self, text: str) -> str:
        """Return the text with these values masked."""
        ...


def redact(value: Any, *, text: TextFilter, depth: int = 0) -> Any:
    """Return the value with secrets redacted by type and by name; containers are copied, down to six levels.

    `text` is applied to each string.
    """
    if isinstance(value, str):
        return text(value)
    if value is None or isinstance(value, int | float):
        return value
    if hasattr(value, "reveal") or hasattr(value, "get_secret_value"):
        return MASK
    if depth >= _MAX_DEPTH:
        return "..."
    if isinstance(value, dict):
        return {
            text(str(name)): redact_field(str(name), member, text=text, depth=depth)
            for name, member in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(member, text=text, depth=depth + 1) for member in value]
    return value


def redact_field(name: str, value: Any, *, text: TextFilter, depth: int = 0) -> Any:
    """Return the value of a field redacted: `***` for a secret name, without its query for a path or URL."""
    if is_secret_name(name):
        return MASK
    if name in _PATH_NAMES and isinstance(value, str):
        path, question, _ = value.partition("?")
        return text(f"{path}?{MASK}" if question else path)
    return redact(value, text=text, depth=depth + 1)


def redact_text(line: str) -> str:
    """Return the line with everything that has the shape of a secret replaced by `***`."""
    return _SHAPES.sub(_replace_in_line, line)


def mask_shapes(text: str) -> str:
    """Return a text with everything that has the shape of a secret replaced by `***`; unlike in a log line,
    the query of a URL stays, but for the values of parameters with the name of a secret.
    """
    return _SHAPES.sub(_replace_in_text, text)


def _replace_in_text(match: re.Match[str]) -> str:
    if scheme := match["scheme"]:
        return f"{scheme}{match['rest']}{_PARAMETER.sub(_mask_parameter, match['query'] or '')}"
    return _replace_in_line(match)


def _mask_parameter(match: re.Match[str]) -> str:
    return f"{match[1]}={MASK}" if is_secret_name(match[1].lstrip("?&;")) else match[0]


def _replace_in_line(match: re.Match[str]) -> str:
    if scheme := match["scheme"]:
        return f"{scheme}{match['rest']}{'?' + MASK if match['query'] else ''}"
    if kind := match["kind"]:
        return f"{kind} {MASK}"
    if name := match["name"]:
        return f"{name}{MASK}"
    return f"{match['key']}_{MASK}" if match["key"] else MASK

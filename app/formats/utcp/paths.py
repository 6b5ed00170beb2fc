"""URL templates, split into literals and placeholders once, when a plan is compiled."""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote

from app.core.errors import FieldError, InvalidInput
from app.formats.utcp.percent import escape_literal
from app.formats.utcp.segments import is_dot_segment

_URL: Final = re.compile(
    r"([a-z][a-z0-9+.-]{0,31})://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.IGNORECASE | re.DOTALL
)
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@\\%{}/\s]+)(?::([0-9]{0,5}))?")
_HOST: Final = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9._-]{1,253}")
_PLACEHOLDER: Final = re.compile(r"\{([^{}/?#]+)\}")
# RFC 6570's query and fragment expansions (`{?q,page}`) are dropped: their parameters go into the query
# anyway.
_EXPANSION: Final = re.compile(r"\{[?&#][^{}]*\}")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443"}
HTTP_SCHEMES: Final = ("https", "http")


class Placeholder(NamedTuple):
    """A placeholder: its name, whether it is in the path (or in the query), and the literal text after it, up
    to the next placeholder.
    """

    name: str
    in_path: bool
    literal_after: str


@dataclass(frozen=True, slots=True)
class UrlTemplate:
    """A compiled URL. `head` is everything up to the first placeholder, percent-encoded.

    `may_form_dots` says that a segment consists of several pieces which together could form a dot segment;
    `query_separator` is what precedes an appended query parameter (`?`, `&` or nothing).
    """

    origin: str
    head: str
    placeholders: tuple[Placeholder, ...]
    query_separator: str
    may_form_dots: bool


def compile_url(url: str, *, at: str = "/url", schemes: tuple[str, ...] = HTTP_SCHEMES) -> UrlTemplate:
    """Compile an absolute URL with `{placeholders}` in its path and query; drop its fragment.

    Raises InvalidInput (with the pointer `at`) for user info, a placeholder in the authority, dot segments,
    and for text that is not an absolute URL with one of the schemes.
    """
    match = _URL.fullmatch(_EXPANSION.sub("", url.strip()))
    if match is None or match[1].lower() not in schemes:
        raise _reject_url(f"The URL must be absolute and begin with {schemes[0]}:// or {schemes[1]}://", at)
    scheme, authority, path, query = match[1].lower(), match[2], match[3], match[4]
    origin = f"{scheme}://{_check_authority(authority, scheme, at)}"
    segments = path.split("/")[1:]
    if any(is_dot_segment(segment) for segment in segments if not _PLACEHOLDER.search(segment)):
        raise _reject_url("The path must not contain dot segments (`.`, `..`)", at)
    if re.search(r"[\x00-\x1f\x7f\\]", url.strip()):
        raise _reject_url("The URL must not contain control characters or backslashes", at)
    slots, head = _split(path or "/", in_path=True)
    if query:
        query_slots, text = _split("?" + query, in_path=False)
        if slots:
            slots[-1] = slots[-1]._replace(literal_after=slots[-1].literal_after + text)
        else:
            head += text
        slots += query_slots
    joiner = "?" if not query else "" if query.endswith("&") else "&"
    return UrlTemplate(origin, origin + head, tuple(slots), joiner, any(map(_may_form_dots, segments)))


def _reject_url(detail: str, at: str) -> InvalidInput:
    return InvalidInput("The URL of the call template cannot be used", errors=[FieldError(at, f"{detail}.")])


def check_host(text: str, *, at: str) -> str:
    """Return a host name or IP address (`::1` without brackets) in the form that it has in an origin.

    Raises InvalidInput for a placeholder, a port, and text that is not a host.
    """
    host = f"[{text}]" if ":" in text and not text.startswith("[") else text
    if re.search(r":[0-9]*$", host.rpartition("]")[2]):
        raise _reject_url("The host must not contain a port", at)
    return _check_authority(host, "", at)


def _check_authority(authority: str, scheme: str, at: str) -> str:
    if "{" in authority:
        raise _reject_url(
            "The host and port must not contain placeholders: arguments never choose the destination", at
        )
    if "@" in authority:
        raise _reject_url("User info is a credential and does not belong in the URL", at)
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise _reject_url("The host or port is not valid", at)
    host, port = match[1].lower(), match[2]
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii").lower()
        except UnicodeError:
            raise _reject_url("The host is not a valid domain name", at) from None
    if not _HOST.fullmatch(host) or (port and not 0 < int(port) < 65536):
        raise _reject_url("The host or port is not valid", at)
    usual = _DEFAULT_PORTS.get(scheme, "")
    number = str(int(port)) if port else usual
    return host if number == usual else f"{host}:{number}"


def _split(text: str, *, in_path: bool) -> tuple[list[Placeholder], str]:
    pieces = _PLACEHOLDER.split(text)
    literals, names = [escape_literal(piece) for piece in pieces[::2]], pieces[1::2]
    slots = [Placeholder(name, in_path, after) for name, after in zip(names, literals[1:], strict=True)]
    return slots, literals[0]


def _may_form_dots(segment: str) -> bool:
    # A value that consists of dots is rejected anyway; what remains are dots of the template before a value
    # (`.{a}`), and two values with nothing else between them (`{a}{b}`, `{a}.{b}`).
    literals = [unquote(text) for text in _PLACEHOLDER.split(segment)[::2]]
    if len(literals) < 2:
        return False
    if literals[0]:
        return not literals[0].strip(". ")
    return len(literals) > 2 and not literals[1].strip(".; ")

"""URL templates, cut into literals and placeholders once, when a plan is compiled."""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote

from app.errors import Fault, InvalidInput
from app.utcp.percent import escape_literal
from app.utcp.segments import is_dot_segment

_URL: Final = re.compile(
    r"([a-z][a-z0-9+.-]{0,31})://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.IGNORECASE | re.DOTALL
)
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@\\%{}/\s]+)(?::([0-9]{0,5}))?")
_HOST: Final = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9._-]{1,253}")
_PLACEHOLDER: Final = re.compile(r"\{([^{}/?#]+)\}")
# RFC 6570's query and fragment expansions (`{?q,page}`): such parameters go into the query anyway.
_EXPANSION: Final = re.compile(r"\{[?&#][^{}]*\}")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443"}
HTTP: Final = ("https", "http")


class Slot(NamedTuple):
    """A placeholder: its name, whether it stands in the path (or in the query), and the text up to the next
    one.
    """

    name: str
    in_path: bool
    after: str


@dataclass(frozen=True, slots=True)
class UrlTemplate:
    """A compiled URL. `head` is everything up to the first placeholder, percent-encoded.

    `risky` says that a segment is made of several pieces which together might become dots; `joiner` is what
    a further query parameter is appended with.
    """

    origin: str
    head: str
    slots: tuple[Slot, ...]
    joiner: str
    risky: bool


def compile_url(url: str, *, at: str = "/url", schemes: tuple[str, ...] = HTTP) -> UrlTemplate:
    """Reads an absolute URL with `{placeholders}` in its path and query; a fragment is dropped.

    Raises InvalidInput (pointing `at`) for user info, a placeholder in the authority, dot segments, and for
    what is no such URL.
    """
    match = _URL.fullmatch(_EXPANSION.sub("", url.strip()))
    if match is None or match[1].lower() not in schemes:
        raise _invalid(f"The URL is absolute and begins with {schemes[0]}:// or {schemes[1]}://", at)
    scheme, authority, path, query = match[1].lower(), match[2], match[3], match[4]
    origin = f"{scheme}://{_authority(authority, scheme, at)}"
    segments = path.split("/")[1:]
    if any(is_dot_segment(segment) for segment in segments if not _PLACEHOLDER.search(segment)):
        raise _invalid("The path has no dot segments (`.`, `..`)", at)
    if re.search(r"[\x00-\x1f\x7f\\]", url.strip()):
        raise _invalid("The URL holds no control characters and no backslash", at)
    slots, head = _cut(path or "/", in_path=True)
    if query:
        query_slots, text = _cut("?" + query, in_path=False)
        if slots:
            slots[-1] = slots[-1]._replace(after=slots[-1].after + text)
        else:
            head += text
        slots += query_slots
    joiner = "?" if not query else "" if query.endswith("&") else "&"
    return UrlTemplate(origin, origin + head, tuple(slots), joiner, any(map(_is_risky, segments)))


def _invalid(detail: str, at: str) -> InvalidInput:
    return InvalidInput("The URL of the call template cannot be used", errors=[Fault(at, f"{detail}.")])


def checked_host(text: str, *, at: str) -> str:
    """A host name or address that stands alone (`::1` without brackets), as an origin has it.

    Raises InvalidInput for a placeholder in it and for what is no host.
    """
    host = f"[{text}]" if ":" in text and not text.startswith("[") else text
    if re.search(r":[0-9]*$", host.rpartition("]")[2]):
        raise _invalid("The host has no port in it", at)
    return _authority(host, "", at)


def _authority(authority: str, scheme: str, at: str) -> str:
    if "{" in authority:
        raise _invalid(
            "No placeholder may stand in the host or port: arguments never choose the destination", at
        )
    if "@" in authority:
        raise _invalid("User info is a credential and does not belong in the URL", at)
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise _invalid("The host or port is not legal", at)
    host, port = match[1].lower(), match[2]
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii").lower()
        except UnicodeError:
            raise _invalid("The host is no legal domain name", at) from None
    if not _HOST.fullmatch(host) or (port and not 0 < int(port) < 65536):
        raise _invalid("The host or port is not legal", at)
    usual = _DEFAULT_PORTS.get(scheme, "")
    number = str(int(port)) if port else usual
    return host if number == usual else f"{host}:{number}"


def _cut(text: str, *, in_path: bool) -> tuple[list[Slot], str]:
    pieces = _PLACEHOLDER.split(text)
    literals, names = [escape_literal(piece) for piece in pieces[::2]], pieces[1::2]
    slots = [Slot(name, in_path, after) for name, after in zip(names, literals[1:], strict=True)]
    return slots, literals[0]


def _is_risky(segment: str) -> bool:
    # A value that is dots by itself is refused anyway; left are dots of the template before a value
    # (`.{a}`), and two values with nothing else between them (`{a}{b}`, `{a}.{b}`).
    literals = [unquote(text) for text in _PLACEHOLDER.split(segment)[::2]]
    if len(literals) < 2:
        return False
    if literals[0]:
        return not literals[0].strip(". ")
    return len(literals) > 2 and not literals[1].strip(".; ")

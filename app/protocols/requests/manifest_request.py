"""The HTTP request of a ToolClad manifest: arguments and secrets are inserted where its placeholders stand.

A value is percent-encoded in the URL, escaped as in a JSON string in the body, and sent as it is in a header,
which has no control characters. The host is fixed: a URL with a placeholder there does not compile.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.core.errors import FieldError, InvalidArguments, InvalidInput
from app.core.text import pointer
from app.formats.toolclad.contract import Contract, HttpSection
from app.formats.toolclad.placeholders import (
    Piece,
    Reference,
    fill,
    list_references,
    parse_pieces,
    write_text,
)
from app.formats.utcp.call_template import compile_template
from app.formats.utcp.headers import HEADER_NAME, forbidden_in_arguments, forbidden_in_credentials
from app.formats.utcp.paths import compile_url
from app.formats.utcp.percent import escape, escape_literal
from app.formats.utcp.segments import is_dot_segment
from app.protocols.requests.plan_compiler import SAFE_METHODS
from app.protocols.requests.request_plan import MAX_URL_BYTES, PreparedRequest
from app.protocols.requests.templates import METHODS, RequestTemplate, ResponseSpec

_AT: Final = "/toolclad/http"
_UNSENT: Final = "***"


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """A compiled request. The members that `ArgumentPlan` has, too, mean the same."""

    method: str
    origin: str
    safe: bool
    contract: Contract
    _url: tuple[Piece, ...]
    _headers: tuple[tuple[str, tuple[Piece, ...]], ...]
    _body: tuple[Piece, ...] | None
    _success: frozenset[int]
    _error: frozenset[int]
    _path_names: tuple[str, ...]
    accept: str | None = None
    response: ResponseSpec | None = None

    def prepare(
        self, arguments: Mapping[str, Any], secrets: Mapping[str, str] | None = None
    ) -> PreparedRequest:
        """Return the request for arguments; a secret that is not given is `***`.

        Raise InvalidArguments for a value that cannot be sent in its place, or would leave it.
        """
        present = {name: value for name, value in arguments.items() if value is not None}
        known = dict.fromkeys(self.contract.arguments, "") | self.contract.defaults | present
        values = {name: write_text(value) for name, value in known.items()}
        hidden = dict.fromkeys(self.contract.secrets, _UNSENT) | dict(secrets or {})
        headers = [(name, _header(name, pieces, values, hidden)) for name, pieces in self._headers]
        body = None if self._body is None else fill(self._body, values, hidden, _in_json).encode()
        return PreparedRequest(self.method, self._filled_url(values, hidden), headers, body)

    def is_success(self, status: int) -> bool:
        """Return whether the manifest takes a status for a success: 2xx, unless it lists statuses."""
        if status in self._error:
            return False
        return status in self._success if self._success else 200 <= status < 300

    def _filled_url(self, values: Mapping[str, str], secrets: Mapping[str, str]) -> str:
        try:
            url = fill(self._url, values, secrets, escape)
        except UnicodeEncodeError:
            raise InvalidArguments("An argument has characters that cannot be sent.") from None
        path = url[len(self.origin) :].partition("?")[0]
        segments = path.split("/")[1:]
        if any(is_dot_segment(segment) for segment in segments):
            raise InvalidArguments("The arguments could leave their path segment.")
        for name in self._path_names:
            if not values.get(name):
                error = FieldError(pointer("", name), "Give a value: it is part of the path.")
                raise InvalidArguments("A path argument is missing", errors=[error])
        if len(url) > MAX_URL_BYTES:
            error = FieldError("", f"The URL that the arguments make has at most {MAX_URL_BYTES} bytes.")
            raise InvalidArguments("The arguments make the URL too long", errors=[error])
        return url


def manifest_plan(template: Mapping[str, Any]) -> ManifestPlan | None:
    """Return the plan of a stored template that has the contract of a request, None for other templates.

    Raise InvalidInput, with pointers into the template, for one that can never be called.
    """
    stored = template.get("toolclad")
    if not isinstance(stored, Mapping) or "http" not in stored:
        return None
    model = compile_template(template, RequestTemplate)
    contract = model.toolclad
    if contract is None or contract.http is None:
        return None
    plan = _compiled(contract, contract.http)
    if compile_url(model.url).origin != plan.origin or model.http_method != plan.method:
        error = FieldError("/url", "The template and its contract name different destinations or methods.")
        raise InvalidInput("The request cannot be sent", errors=[error])
    return plan


def _compiled(contract: Contract, http: HttpSection) -> ManifestPlan:
    if http.method not in METHODS:
        error = FieldError(f"{_AT}/method", f"The method must be one of {', '.join(sorted(METHODS))}.")
        raise InvalidInput("The request cannot be sent", errors=[error])
    # The URL without its placeholders is compiled for its checks of scheme, host and dot segments.
    compiled = compile_url(_plain(http.url), at=f"{_AT}/url")
    rest = http.url.strip().partition("://")[2]
    tail = rest[len(rest.partition("/")[0].partition("?")[0]) :].partition("#")[0]
    tail = tail if tail.startswith("/") else f"/{tail}"
    url = tuple(escape_literal(piece) if isinstance(piece, str) else piece for piece in parse_pieces(tail))
    headers = []
    for name, text in http.headers.items():
        _check_header(name, text)
        headers.append((name, parse_pieces(text)))
    body = None
    if http.body_template is not None:
        body = parse_pieces(http.body_template, known=contract.arguments.__contains__)
        if not any(name.lower() == "content-type" for name in http.headers):
            headers.append(("Content-Type", ("application/json",)))
    return ManifestPlan(
        method=http.method,
        origin=compiled.origin,
        safe=http.method in SAFE_METHODS,
        contract=contract,
        _url=(compiled.origin, *url),
        _headers=tuple(headers),
        _body=body,
        _success=frozenset(http.success_status),
        _error=frozenset(http.error_status),
        _path_names=tuple(list_references(http.url.partition("?")[0])),
    )


def _plain(url: str) -> str:
    """Return a URL with a text in place of each placeholder beyond its host."""
    scheme, separator, rest = url.partition("://")
    authority = rest.partition("/")[0].partition("?")[0]
    pieces = parse_pieces(rest[len(authority) :])
    path = "".join(piece if isinstance(piece, str) else "x" for piece in pieces)
    return (
        f"{scheme}{separator}{authority}{path}".replace("{", "%7B").replace("}", "%7D")
        if ("{" not in authority)
        else url
    )


def _check_header(name: str, text: str) -> None:
    at = pointer(_AT, "headers", name)
    pieces = parse_pieces(text)
    takes_argument = any(isinstance(piece, Reference) for piece in pieces)
    is_forbidden = forbidden_in_credentials(name) or (takes_argument and forbidden_in_arguments(name))
    if not HEADER_NAME.fullmatch(name) or is_forbidden:
        raise InvalidInput(
            "The request cannot be sent", errors=[FieldError(at, "No manifest sets this header.")]
        )
    if any(isinstance(piece, str) and not _is_sendable(piece) for piece in pieces):
        error = FieldError(at, "A header has no control characters, and none beyond Latin-1.")
        raise InvalidInput("The request cannot be sent", errors=[error])


def _header(
    name: str, pieces: tuple[Piece, ...], values: Mapping[str, str], secrets: Mapping[str, str]
) -> str:
    text = fill(pieces, values, secrets)
    if not _is_sendable(text):
        for piece in pieces:
            if isinstance(piece, Reference) and not _is_sendable(values.get(piece.name, "")):
                error = FieldError(pointer("", piece.name), "A header has no control characters.")
                raise InvalidArguments("The argument cannot be sent in a header.", errors=[error])
        raise InvalidArguments(f"The header {name} cannot be sent.")
    return text.strip(" \t")


def _is_sendable(text: str) -> bool:
    return all(0x20 <= ord(c) < 0x7F or 0xA0 <= ord(c) <= 0xFF or c == "\t" for c in text)


def _in_json(text: str) -> str:
    """Return the text as it stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=True)[1:-1]

"""A compiled plan, which turns arguments into an HTTP request in one pass.

This is the hot path of every call: an identifier in the path and two query parameters take about 2 us.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

from app.core import exact_json
from app.core.errors import FieldError, InvalidArguments
from app.core.text import pointer
from app.formats.utcp.percent import escape, write_json, write_scalar
from app.formats.utcp.segments import is_dot_segment
from app.protocols.requests.bodies import BodyEncoder
from app.protocols.requests.templates import ResponseSpec

MAX_URL_BYTES: Final = 64 * 1024
"""Servers accept 8 to 32 KiB, and encoding and checking a path takes 0.7 us a byte."""


class PreparedRequest(NamedTuple):
    """A request without credentials. `url` is percent-encoded; the HTTP client adds Content-Length."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: bytes | None


class PathPlaceholder(NamedTuple):
    """A placeholder of the URL: its argument, its encoder, and the literal text that follows it."""

    input: str
    encode: Callable[[Any], str]
    after: str


class StaticHeader(NamedTuple):
    """A header of the template itself; the argument named `override`, if any, replaces its value."""

    name: str
    value: str
    override: str | None


class BodyArgument(NamedTuple):
    """The argument that becomes the body. `sends_null` says that null is sent instead of left out."""

    input: str
    encode: BodyEncoder
    required: bool
    sends_null: bool


@dataclass(frozen=True, slots=True)
class ArgumentPlan:
    """The compiled form of an http call template, as `compile_plan` returns it.

    `origin` is `scheme://host[:port]`, lower case, without a default port. `safe` is true for safe methods
    (RFC 9110 section 9.2.1), which may be retried. `accept` is the Accept header for calls that bring none of
    their own; None where the template says nothing about it.
    """

    method: str
    origin: str
    safe: bool
    accept: str | None
    _head: str
    _placeholders: tuple[PathPlaceholder, ...]
    _query_joiner: str
    _check_dot_segments: bool
    _query: tuple[tuple[str, Callable[[Any], str]], ...]
    _takes_any_query: bool
    _known: frozenset[str]
    _headers: tuple[tuple[str, str, Callable[[Any], str | None]], ...]
    _cookies: tuple[tuple[str, Callable[[Any], list[str]]], ...]
    _static: tuple[StaticHeader, ...]
    _rejected: frozenset[str]
    _body: BodyArgument | None
    _outside_url: frozenset[str]
    """The arguments that are no part of the URL and need no encoding that takes long: headers, the body."""
    response: ResponseSpec | None = None
    """What the template says of the response beyond the output schema of the tool."""
    _defaults: Mapping[str, Any] = field(default_factory=dict)

    def prepare(self, arguments: Mapping[str, Any]) -> PreparedRequest:
        """Return the request for a JSON object of arguments.

        Raises InvalidArguments, with the pointer of the argument, for a missing path value or required body,
        an unknown argument of an OpenAPI tool, a value that cannot be sent or would leave its path segment,
        and a URL of more than 64 KiB.
        """
        if self._defaults:
            arguments = {**self._defaults, **arguments}
        try:
            if arguments:
                self._check_size(arguments)
            url = self._fill_path(arguments) if self._placeholders else self._head
            if self._takes_any_query:
                pairs = self._other_query(arguments)
            else:
                if not arguments.keys() <= self._known:
                    _reject_unknown(arguments, self._known)
                pairs = [
                    text
                    for name, encode in self._query
                    if (value := arguments.get(name)) is not None and (text := encode(value))
                ]
            if pairs:
                url = f"{url}{self._query_joiner}{'&'.join(pairs)}"
            if len(url) > MAX_URL_BYTES:
                self._reject_size(arguments)
            headers: list[tuple[str, str]] = []
            if self._static or self._headers or self._cookies or self._rejected:
                self._add_headers(arguments, headers)
            body = None if self._body is None else _encode_body(self._body, arguments, headers)
            return PreparedRequest(self.method, url, headers, body)
        except (UnicodeEncodeError, TypeError):
            # Lone surrogates, integers beyond 64 bits, nesting beyond what JSON is written with.
            detail = "Use well-formed Unicode, integers of 64 bits and at most 250 levels."
            raise InvalidArguments(
                "An argument cannot be written as text", errors=[FieldError("", detail)]
            ) from None

    def _check_size(self, arguments: Mapping[str, Any]) -> None:
        """Reject arguments that are certainly too long before encoding them, a second for some megabytes."""
        size = 0
        for name, value in arguments.items():
            if name not in self._outside_url:
                size += len(name)
                if isinstance(value, str):
                    size += len(value)
                elif isinstance(value, (dict, list)):
                    size += _min_url_bytes(value)
        if size > MAX_URL_BYTES:
            self._reject_size(arguments)

    def _reject_size(self, arguments: Mapping[str, Any]) -> NoReturn:
        sizes = {
            name: len(name) + _min_url_bytes(value)
            for name, value in arguments.items()
            if name not in self._outside_url
        }
        largest = max(sizes, key=sizes.__getitem__, default="")
        error = FieldError(
            pointer("", largest[:100]) if largest else "",
            f"Shorten the arguments: the URL that they make has at most {MAX_URL_BYTES} bytes.",
        )
        raise InvalidArguments("The arguments make the URL too long", errors=[error])

    def _fill_path(self, arguments: Mapping[str, Any]) -> str:
        url = self._head
        for name, encode, after in self._placeholders:
            value = arguments.get(name)
            if value is None:
                error = FieldError(pointer("", name), "Give a value: it is part of the path.")
                raise InvalidArguments("A path argument is missing", errors=[error])
            url += encode(value) + after
        if self._check_dot_segments:
            path = url[len(self.origin) :].partition("?")[0]
            if any(is_dot_segment(segment) for segment in path.split("/")):
                error = FieldError("", "Together the path arguments form a dot segment (`.`, `..`).")
                raise InvalidArguments("The arguments could leave their path segment", errors=[error])
        return url

    def _other_query(self, arguments: Mapping[str, Any]) -> list[str]:
        pairs: list[str] = []
        for name, value in arguments.items():
            if value is None or name in self._known:
                continue
            key = escape(name)
            if isinstance(value, str):
                pairs.append(f"{key}={escape(value)}")
            elif isinstance(value, list):
                pairs += [f"{key}={escape(write_scalar(member))}" for member in value if member is not None]
            else:
                pairs.append(
                    f"{key}={escape(write_json(value) if isinstance(value, dict) else write_scalar(value))}"
                )
        return pairs

    def _add_headers(self, arguments: Mapping[str, Any], headers: list[tuple[str, str]]) -> None:
        for name, value, override in self._static:
            if override is None or arguments.get(override) is None:
                headers.append((name, value))
        for name, wire, encode in self._headers:
            argument = arguments.get(name)
            if argument is not None and (text := encode(argument)) is not None:
                headers.append((wire, text))
        cookies = [
            pair
            for name, pairs in self._cookies
            if (argument := arguments.get(name)) is not None
            for pair in pairs(argument)
        ]
        if cookies:
            headers.append(("Cookie", "; ".join(cookies)))
        for name in self._rejected:
            if arguments.get(name) is not None:
                error = FieldError(pointer("", name), "Leave it out: the gateway sets this header itself.")
                raise InvalidArguments("A header that no argument may set", errors=[error])


def _encode_body(
    body: BodyArgument, arguments: Mapping[str, Any], headers: list[tuple[str, str]]
) -> bytes | None:
    """Return the encoded body, and add its Content-Type to the headers; None where it is left out."""
    name, encode, required, sends_null = body
    value = arguments.get(name)
    if value is None and not (sends_null and name in arguments):
        if required:
            raise InvalidArguments(
                "The body is missing", errors=[FieldError(pointer("", name), "Give a value.")]
            )
        return None
    content, media = encode(value)
    headers.append(("Content-Type", media))
    return content


def _min_url_bytes(value: Any) -> int:
    """Return a lower bound of the bytes that the value takes in a URL; only large values are measured."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, (dict, list)):
        members = len(value) - value.count(None) if isinstance(value, list) else 0
        # What JSON writes with six characters (`null,`, an escape) may be nothing or three in a URL.
        try:
            return max(members, len(exact_json.dumps(value)) // 4)
        except TypeError:
            # Encoding it will fail, and report the reason.
            return members
    return 0


def _reject_unknown(arguments: Mapping[str, Any], known: frozenset[str]) -> NoReturn:
    errors = [FieldError(pointer("", name), "No such argument.") for name in arguments if name not in known]
    raise InvalidArguments("The tool does not have these arguments", errors=errors)

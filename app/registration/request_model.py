"""What a registrar asks for, told apart and read, before anything is fetched or converted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from app.credentials.model import GivenCredential, GivenVariable
from app.errors import GatewayError

SourceKind = Literal["document", "manual", "template", "tools"]


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """How an OpenAPI document is read: `root` and `overlay` as in `ConvertOptions`.

    `follows`: the files that a document at a URL refers to are fetched, too, if they lie at its origin.
    """

    root: str | None = None
    overlay: str | None = None
    follows: bool = False


PLAIN: Final = DocumentOptions()


@dataclass(frozen=True, slots=True)
class Source:
    """Where the tools come from.

    document: unparsed `body`, OpenAPI or a manual. manual: a parsed manual in `value`. template: a UTCP call
    template or provider in `value`; one of protocol http is discovered. tools: drafts of an export.
    `at` is the JSON pointer of `value` in the request, `url` where a document came from.
    """

    kind: SourceKind
    body: bytes = field(default=b"", repr=False)
    media_type: str = ""
    value: Any = field(default=None, repr=False)
    at: str = ""
    url: str | None = None
    how: DocumentOptions = PLAIN


@dataclass(frozen=True, slots=True)
class Registration:
    """One provider to be registered."""

    name: str
    source: Source
    title: str = ""
    description: str | None = None
    tags: tuple[str, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    option_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Mapping[str, GivenCredential] = field(default_factory=dict)
    variables: Mapping[str, GivenVariable] = field(default_factory=dict)
    enabled: bool = True
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By source key: description, tags, enabled, as an export has them."""
    unconfirmed_origins: tuple[str, ...] = ()
    """Origins of its tools that only keys without `credentials:write` brought, where it was exported."""
    at: str = ""
    """The JSON pointer of this registration in the request."""


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """An entry of a list that could not be read; `name` is what it seems to be called."""

    name: str | None
    error: GatewayError


@dataclass(frozen=True, slots=True)
class Registrations:
    """What one request asks for. `many` is true for a list, even for one with a single entry."""

    entries: tuple[Registration | RefusedEntry, ...]
    many: bool = False

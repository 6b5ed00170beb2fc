"""What of a hand-written call template is shown, and what is sealed.

Header values, URL userinfo and query values are often keys, whatever they are called; so all of them become
a credential of kind `static`, but for a few headers that never hold one. So do the environments of programs,
and any other text of a template that may hold a secret and names a secret variable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit, urlunsplit

from app.credentials.model import GivenCredential
from app.credentials.variable_scope import VariableScope
from app.errors import Fault, InvalidInput
from app.protocols.variables import places_of
from app.text import pointer
from app.utcp.auth import Auth, credential_from_auth
from app.utcp.call_template import CallTemplate, replaced, texts_at
from app.utcp.headers import HEADER_NAME, never_set_by_credentials
from app.utcp.variables import VARIABLE

Json = dict[str, Any]

PLAIN_HEADERS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})


@dataclass(frozen=True, slots=True)
class SplitTemplate:
    """A template's open part, and what was taken out of it to be sealed."""

    fields: dict[str, Any]
    auth: GivenCredential | None = None
    auth_tools: GivenCredential | None = None
    static: GivenCredential | None = None


def split_template(template: CallTemplate, *, scope: VariableScope, at: str = "") -> SplitTemplate:
    """Takes the secrets out of a call template.

    Raises UnsetVariable for variables without a value, MisplacedSecret for a secret one in an open field and
    InvalidInput for what cannot be sent; pointers are below `at`.
    """
    stored = scope.rewritten(template.stored(), at=at)
    given = ((key, getattr(template, key, None)) for key in ("auth", "auth_tools"))
    auths = {
        key: scope.rewritten(auth.model_dump(exclude_none=True), at=pointer(at, key))
        for key, auth in given
        if auth is not None
    }
    secrets: dict[str, Any] = {"headers": {}, "query": {}, "basic": None}
    for key in stored.keys() & set(template.url_fields):
        stored[key], secrets["query"], secrets["basic"] = _split_url(stored[key], at=pointer(at, key))
    plain, secrets["headers"] = _split_headers(stored.pop("headers", {}), at=pointer(at, "headers"))
    sealed = _sealed_texts(stored, type(template), scope)
    if sealed:
        secrets["fields"] = sealed
        stored = replaced(stored, dict.fromkeys(sealed, ""))
    stored.pop("name", None)
    scope.refuse_secrets(stored, at=at)
    return SplitTemplate(
        fields={**stored, "headers": plain} if plain else stored,
        auth=_given(auths.get("auth"), scope=scope, at=pointer(at, "auth")),
        auth_tools=_given(auths.get("auth_tools"), scope=scope, at=pointer(at, "auth_tools")),
        static=GivenCredential("static", {}, secrets) if any(secrets.values()) else None,
    )


def unsealed_secrets(template: CallTemplate) -> bool:
    """Whether a template holds, in the open, what is never stored so: auth, keys in headers, environments."""
    headers = getattr(template, "headers", {})
    auths = (template.auth, getattr(template, "auth_tools", None))
    stored = template.stored()
    return (
        any(auth is not None for auth in auths)
        or any(name.lower() not in PLAIN_HEADERS for name in headers)
        or any(text for _, text in texts_at(stored, template.sealed))
    )


def _sealed_texts(stored: Json, model: type[CallTemplate], scope: VariableScope) -> dict[str, str]:
    """By pointer: what is always a secret, and what names a secret variable where that may stand."""
    sealed = {at: text for at, text in texts_at(stored, model.sealed) if text}
    may_be = dict(texts_at(stored, model.may_be_secret))
    for at, name in places_of(stored) if may_be else ():
        known = scope.find(name) if at in may_be else None
        if known is not None and not known.may_show(fetched=scope.fetched):
            sealed[at] = may_be[at]
    return sealed


def given_auth(auth: Auth, *, scope: VariableScope, at: str) -> GivenCredential:
    """A credential of an auth object, its variables spelled as they are stored."""
    given = _given(scope.rewritten(auth.model_dump(exclude_none=True), at=at), scope=scope, at=at)
    assert given is not None  # noqa: S101 - there was one
    return given


def _given(auth: Mapping[str, Any] | None, *, scope: VariableScope, at: str) -> GivenCredential | None:
    if auth is None:
        return None
    draft = credential_from_auth(auth, at=at)
    scope.refuse_secrets(draft.public, at=at)
    return GivenCredential(draft.kind, scope.resolved(draft.public), dict(draft.secrets))


def static_places(secrets: Mapping[str, Any]) -> list[dict[str, str]]:
    """Where the values of a credential of kind `static` belong, and their names: what may be shown of it."""
    query: Mapping[str, list[str]] = secrets.get("query") or {}
    return [
        *({"location": "header", "name": name} for name in secrets.get("headers") or ()),
        *({"location": "query", "name": name} for name, values in query.items() for _ in values),
        *({"location": "userinfo", "name": n} for n in ("username", "password") if secrets.get("basic")),
        *({"location": "field", "name": at} for at in secrets.get("fields") or ()),
    ]


def with_origins(given: GivenCredential, origins: tuple[str, ...]) -> GivenCredential:
    """The credential bound to these origins, unless its owner named some."""
    return given if given.allowed_origins is not None else replace(given, allowed_origins=origins)


def _split_headers(headers: Mapping[str, str], *, at: str) -> tuple[dict[str, str], dict[str, str]]:
    plain: dict[str, str] = {}
    sealed: dict[str, str] = {}
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or never_set_by_credentials(name):
            fault = Fault(pointer(at, name), "This header is not set by a call template.")
            raise InvalidInput("A header of the call template cannot be sent.", errors=[fault])
        if any(ord(char) < 0x20 or ord(char) == 0x7F for char in value):
            fault = Fault(pointer(at, name), "Remove line breaks and other control characters.")
            raise InvalidInput("A header value cannot be sent.", errors=[fault])
        is_plain = name.lower() in PLAIN_HEADERS and VARIABLE.search(value) is None
        (plain if is_plain else sealed)[name] = value
    return plain, sealed


def _split_url(url: str, *, at: str) -> tuple[str, dict[str, list[str]], list[str] | None]:
    """The URL without userinfo and query values, these values, and the userinfo."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidInput("The URL cannot be read.", errors=[Fault(at, "Give a legal URL.")]) from None
    kept, query = _split_query(parts.query)
    basic = None
    netloc = parts.netloc
    if "@" in netloc:
        userinfo, _, netloc = netloc.rpartition("@")
        username, _, password = userinfo.partition(":")
        basic = [unquote(username), unquote(password)]
    bare = SplitResult(parts.scheme, netloc, parts.path, kept, "")
    # A URL that a variable begins has no authority that could be told apart; its text stays as it is.
    return (urlunsplit(bare) if parts.netloc else _without_query(url, parts.query, kept)), query, basic


def _split_query(query: str) -> tuple[str, dict[str, list[str]]]:
    kept: list[str] = []
    sealed: dict[str, list[str]] = {}
    for pair in query.split("&"):
        name, equals, value = pair.partition("=")
        key = unquote_plus(name)
        # `{term}` is a path parameter of UTCP wherever it stands in the URL: it stays to be filled.
        filled = "{" in VARIABLE.sub("", pair)
        if not pair or not equals or filled:
            kept += [pair] if pair else []
        else:
            sealed.setdefault(key, []).append(unquote_plus(value))
    return "&".join(kept), sealed


def _without_query(url: str, query: str, kept: str) -> str:
    bare = url.partition("#")[0]
    return bare if not query else bare.partition("?")[0] + (f"?{kept}" if kept else "")

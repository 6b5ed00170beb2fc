"""Splitting a call template into its public part and the secrets that are sealed.

Header values, URL userinfo and query values are often secrets, whatever their names; so all of them become a
credential of kind `static`, except for a few headers that never contain a secret. So do the environments of
programs, and any other field that may be secret and refers to a secret variable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit, urlunsplit

from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.formats.utcp.auth import Auth, convert_auth
from app.formats.utcp.call_template import CallTemplate, list_strings, replace_strings
from app.formats.utcp.headers import HEADER_NAME, forbidden_in_credentials
from app.formats.utcp.variables import VARIABLE
from app.protocols.variables import locations_of
from app.providers.credentials.model import CredentialDraft, ValueLocation
from app.providers.credentials.variable_scope import VariableScope

Json = dict[str, Any]

PLAIN_HEADERS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})


@dataclass(frozen=True, slots=True)
class SplitTemplate:
    """The public part of a call template (`fields`), and the credentials that were taken out of it.

    `auth` is for the template itself, `auth_tools` for the tools of its document, `static` for its values.
    """

    fields: dict[str, Any]
    auth: CredentialDraft | None = None
    auth_tools: CredentialDraft | None = None
    static: CredentialDraft | None = None


def split_template(template: CallTemplate, *, scope: VariableScope, at: str = "") -> SplitTemplate:
    """Return a call template split into its public part and its secrets.

    Raise UnsetVariable for variables without a value, MisplacedSecret for a secret variable in a public
    field, and InvalidInput for a header or URL that cannot be sent; pointers are below `at`.
    """
    stored = scope.rewritten(template.stored(), at=at)
    auth_objects = ((key, getattr(template, key, None)) for key in ("auth", "auth_tools"))
    auths = {
        key: scope.rewritten(auth.model_dump(exclude_none=True), at=pointer(at, key))
        for key, auth in auth_objects
        if auth is not None
    }
    secrets: dict[str, Any] = {"headers": {}, "query": {}, "basic": None}
    for key in stored.keys() & set(template.url_fields):
        stored[key], secrets["query"], secrets["basic"] = _split_url(stored[key], at=pointer(at, key))
    plain, secrets["headers"] = _split_headers(stored.pop("headers", {}), at=pointer(at, "headers"))
    sealed = _sealed_texts(stored, type(template), scope)
    if sealed:
        secrets["fields"] = sealed
        stored = replace_strings(stored, dict.fromkeys(sealed, ""))
    stored.pop("name", None)
    scope.reject_secrets(stored, at=at)
    return SplitTemplate(
        fields={**stored, "headers": plain} if plain else stored,
        auth=_draft_of(auths.get("auth"), scope=scope, at=pointer(at, "auth")),
        auth_tools=_draft_of(auths.get("auth_tools"), scope=scope, at=pointer(at, "auth_tools")),
        static=CredentialDraft("static", {}, secrets) if any(secrets.values()) else None,
    )


def has_plaintext_secrets(template: CallTemplate) -> bool:
    """Return whether a template contains values that are stored only sealed: auth, headers, environments."""
    headers = getattr(template, "headers", {})
    auths = (template.auth, getattr(template, "auth_tools", None))
    stored = template.stored()
    return (
        any(auth is not None for auth in auths)
        or any(name.lower() not in PLAIN_HEADERS for name in headers)
        or any(text for _, text in list_strings(stored, template.sealed))
    )


def _sealed_texts(stored: Json, model: type[CallTemplate], scope: VariableScope) -> dict[str, str]:
    """Return, by JSON pointer, the texts that are always secret, and those that may refer to a secret
    variable and do.
    """
    sealed = {at: text for at, text in list_strings(stored, model.sealed) if text}
    may_be = dict(list_strings(stored, model.may_be_secret))
    for at, name in locations_of(stored) if may_be else ():
        known = scope.find(name) if at in may_be else None
        if known is not None and not scope.is_readable(known):
            sealed[at] = may_be[at]
    return sealed


def draft_from_auth(auth: Auth, *, scope: VariableScope, at: str) -> CredentialDraft:
    """Return the credential of an auth object, with the stored names of its variables.

    Raise as `split_template` does; pointers are below `at`.
    """
    draft = _draft_of(scope.rewritten(auth.model_dump(exclude_none=True), at=at), scope=scope, at=at)
    assert draft is not None  # noqa: S101 - `auth` is not None.
    return draft


def _draft_of(auth: Mapping[str, Any] | None, *, scope: VariableScope, at: str) -> CredentialDraft | None:
    if auth is None:
        return None
    draft = convert_auth(auth, at=at)
    scope.reject_secrets(draft.public, at=at)
    return replace(draft, public=scope.resolved(draft.public))


def static_locations(secrets: Mapping[str, Any]) -> tuple[ValueLocation, ...]:
    """Return the locations and names of the values of a credential of kind `static`, which are public."""
    query: Mapping[str, list[str]] = secrets.get("query") or {}
    userinfo = ("username", "password") if secrets.get("basic") else ()
    return (
        *(ValueLocation("header", name) for name in secrets.get("headers") or ()),
        *(ValueLocation("query", name) for name, values in query.items() for _ in values),
        *(ValueLocation("userinfo", name) for name in userinfo),
        *(ValueLocation("field", at) for at in secrets.get("fields") or ()),
    )


def with_origins(draft: CredentialDraft, origins: tuple[str, ...]) -> CredentialDraft:
    """Return the credential with these allowed origins, unless it already has some."""
    return draft if draft.allowed_origins is not None else replace(draft, allowed_origins=origins)


def _split_headers(headers: Mapping[str, str], *, at: str) -> tuple[dict[str, str], dict[str, str]]:
    plain: dict[str, str] = {}
    sealed: dict[str, str] = {}
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or forbidden_in_credentials(name):
            error = FieldError(pointer(at, name), "A call template must not set this header.")
            raise InvalidInput("A header of the call template cannot be sent.", errors=[error])
        if any(ord(char) < 0x20 or ord(char) == 0x7F for char in value):
            error = FieldError(pointer(at, name), "Remove line breaks and other control characters.")
            raise InvalidInput("A header value cannot be sent.", errors=[error])
        is_plain = name.lower() in PLAIN_HEADERS and VARIABLE.search(value) is None
        (plain if is_plain else sealed)[name] = value
    return plain, sealed


def _split_url(url: str, *, at: str) -> tuple[str, dict[str, list[str]], list[str] | None]:
    """Return the URL without userinfo and query values, the query values, and user name and password (or
    None).
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidInput(
            "The URL cannot be parsed.", errors=[FieldError(at, "Give a valid URL.")]
        ) from None
    rest, query = _split_query(parts.query)
    basic = None
    netloc = parts.netloc
    if "@" in netloc:
        userinfo, _, netloc = netloc.rpartition("@")
        username, _, password = userinfo.partition(":")
        basic = [unquote(username), unquote(password)]
    bare = SplitResult(parts.scheme, netloc, parts.path, rest, "")
    # The authority of a URL that begins with a variable is unknown; only its query is removed.
    return (urlunsplit(bare) if parts.netloc else _without_query(url, parts.query, rest)), query, basic


def _split_query(query: str) -> tuple[str, dict[str, list[str]]]:
    rest: list[str] = []
    sealed: dict[str, list[str]] = {}
    for pair in query.split("&"):
        name, equals, value = pair.partition("=")
        key = unquote_plus(name)
        # `{term}` is a parameter of UTCP anywhere in the URL, and is replaced at the call.
        has_parameter = "{" in VARIABLE.sub("", pair)
        if not pair or not equals or has_parameter:
            rest += [pair] if pair else []
        else:
            sealed.setdefault(key, []).append(unquote_plus(value))
    return "&".join(rest), sealed


def _without_query(url: str, query: str, rest: str) -> str:
    bare = url.partition("#")[0]
    return bare if not query else bare.partition("?")[0] + (f"?{rest}" if rest else "")

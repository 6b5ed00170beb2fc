"""What of a hand-written call template is shown, and what is sealed.

Header values, URL userinfo and query values are often keys, whatever they are called; so all of them become a
credential of kind `static`, but for a few headers that never hold one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit, urlunsplit

from app.errors import Fault, InvalidInput
from app.providers.registration import GivenCredential
from app.providers.scope import VariableScope
from app.utcp.auth import credential_from_auth
from app.utcp.headers import HEADER_NAME, never_set_by_credentials
from app.utcp.templates import HttpTemplate
from app.utcp.text import pointer
from app.utcp.variables import VARIABLE, find_variables

PLAIN_HEADERS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})


@dataclass(frozen=True, slots=True)
class SplitTemplate:
    """A template's open part, and what was taken out of it to be sealed.

    `target` is the URL with every open variable written out: where the requests go.
    """

    fields: dict[str, Any]
    target: str
    auth: GivenCredential | None = None
    auth_tools: GivenCredential | None = None
    static: GivenCredential | None = None
    variables: tuple[str, ...] = field(default=())


def split_template(template: HttpTemplate, *, scope: VariableScope, at: str = "") -> SplitTemplate:
    """Takes the secrets out of an http call template.

    Raises UnsetVariable for variables without a value, MisplacedSecret for a secret one in an open field and
    InvalidInput for what cannot be sent; pointers are below `at`.
    """
    stored = scope.rewritten(template.stored(), at=at)
    auths = {
        key: scope.rewritten(auth.model_dump(exclude_none=True), at=pointer(at, key))
        for key, auth in (("auth", template.auth), ("auth_tools", template.auth_tools))
        if auth is not None
    }
    url, query, basic = _split_url(stored["url"], at=pointer(at, "url"))
    plain, sealed = _split_headers(stored.get("headers", {}), at=pointer(at, "headers"))
    fields = {**stored, "url": url, "headers": plain}
    if not plain:
        del fields["headers"]
    fields.pop("name", None)
    scope.refuse_secrets({key: value for key, value in fields.items() if key != "headers"}, at=at)
    secrets = {"headers": sealed, "query": query, "basic": basic}
    return SplitTemplate(
        fields=fields,
        target=str(scope.resolved(url)),
        auth=_given(auths.get("auth"), scope=scope, at=pointer(at, "auth")),
        auth_tools=_given(auths.get("auth_tools"), scope=scope, at=pointer(at, "auth_tools")),
        static=GivenCredential("static", {}, secrets) if sealed or query or basic else None,
        variables=tuple(find_variables(fields)),
    )


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

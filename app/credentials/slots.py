"""Credential slots: which credential a tool needs, where it may go, and what lacks its owner's consent."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from app.credentials.input_models import header_problem
from app.credentials.model import DEFAULT_SLOT, GivenCredential, InlineCredential, Json, Security
from app.credentials.origins import is_loopback, origin_of
from app.errors import Fault, InvalidInput
from app.text import pointer

Fingerprint = Callable[[GivenCredential], str]


class SecuredTool(Protocol):
    """What is asked of a tool here: the origin of its calls, and the slots that they need."""

    @property
    def origin(self) -> str:
        """`scheme://host[:port]`, "" where there is none."""

    @property
    def security(self) -> Security:
        """OR of ANDs of slots."""


class SlotBook:
    """Gives each distinct credential of a manual a slot: `default`, `default-2`, ...; `static-1`, ...

    `known` are the slots of an earlier import by fingerprint: a slot once given stays with its content.
    """

    def __init__(
        self, fingerprint: Fingerprint, *, known: Mapping[str, str] | None = None, taken: Collection[str] = ()
    ) -> None:
        self._fingerprint = fingerprint
        self._known = dict(known or {})
        self._taken = {*taken, *self._known.values()}
        self._placed: dict[str, InlineCredential] = {}

    def place(self, given: GivenCredential, *, origin: str = "") -> str:
        """The slot of this credential, remembered together with the origin that it was written for.

        Without an origin it is that of `auth_tools`.
        """
        key = self._fingerprint(given)
        found = self._placed.get(key)
        if found is None:
            slot = self._known.get(key) or self._free("static" if given.kind == "static" else DEFAULT_SLOT)
            self._taken.add(slot)
            found = InlineCredential(slot, given, key)
        if not origin:
            found = replace(found, shared=True)
        elif origin not in found.origins:
            found = replace(found, origins=(*found.origins, origin))
        self._placed[key] = found
        return found.slot

    def entries(self) -> tuple[InlineCredential, ...]:
        """All that was placed, in order."""
        return tuple(self._placed.values())

    def _free(self, base: str) -> str:
        if base == DEFAULT_SLOT and base not in self._taken:
            return base
        count = 1 if base == "static" else 2
        while f"{base}-{count}" in self._taken:
            count += 1
        return f"{base}-{count}"


@dataclass(frozen=True, slots=True)
class Binding:
    """What decides where a credential of a provider goes by default.

    `named` are origins that the registrar named, `tools` those of the tools that need the slot.
    """

    named: tuple[str, ...]
    tools: tuple[str, ...]
    loopback_tokens: bool = False


def complete(given: GivenCredential, *, slot: Json | None, binding: Binding, at: str) -> GivenCredential:
    """The credential with location, name, token URL and allowed origins filled in.

    Raises InvalidInput, below `at`, where these cannot be told without the owner's word.
    """
    scheme = slot or {}
    if given.kind == "static" and slot is not None and slot["kind"] != "static":
        fault = Fault(pointer(at, "kind"), "This slot takes no values of a template.")
        raise InvalidInput("The credential is of a kind that does not fit.", errors=[fault])
    public = {key: value for key, value in given.public.items() if value is not None}
    if given.kind == "api_key":
        same = scheme if scheme.get("kind") == "api_key" else {}
        public.setdefault("location", same.get("location") or "header")
        public.setdefault("name", same.get("name") or "X-Api-Key")
        problem = header_problem(public["location"], public["name"])
        if problem:
            fault = Fault(pointer(at, "name"), problem)
            raise InvalidInput("The API key cannot be sent like this.", errors=[fault])
    if given.kind == "oauth2":
        public["token_url"] = _token_url(
            public.get("token_url"), scheme, binding, at=pointer(at, "token_url")
        )
    origins = given.allowed_origins or _default_origins(binding, at=pointer(at, "allowed_origins"))
    return GivenCredential(given.kind, public, given.secrets, origins)


def _default_origins(binding: Binding, *, at: str) -> tuple[str, ...]:
    if binding.named:
        return binding.named
    if len(binding.tools) == 1:
        return binding.tools
    detail = (
        "The tools of this provider go to several origins: say which of them may get the credential."
        if binding.tools
        else "No tool uses this slot: say which origins may get the credential."
    )
    fault = Fault(at, detail, expected=list(binding.tools) or "array of origins")
    raise InvalidInput("It is not clear where the credential may be sent.", errors=[fault])


def _token_url(given: str | None, scheme: Json, binding: Binding, *, at: str) -> str:
    if given is None:
        documented = scheme.get("token_url")
        if not isinstance(documented, str):
            fault = Fault(at, "Give the URL of the token endpoint.", expected="uri")
            raise InvalidInput("The token endpoint is not known.", errors=[fault])
        if origin_of(documented) not in binding.named:
            detail = "The document names this token URL at another origin. Give it here if it is right."
            raise InvalidInput(
                "The token endpoint needs your consent.", errors=[Fault(at, detail, expected=documented)]
            )
        given = documented
    if origin_of(given) is None or "@" in given.partition("://")[2].partition("/")[0] or "#" in given:
        fault = Fault(at, "Give an absolute URL without userinfo and fragment.", expected="uri")
        raise InvalidInput("The token URL cannot be used.", errors=[fault])
    if not given.lower().startswith("https://") and not (binding.loopback_tokens and is_loopback(given)):
        raise InvalidInput(
            "A client secret is sent over https only.", errors=[Fault(at, "Give an https:// URL.")]
        )
    return given


def fill_matching(auth: GivenCredential, slots: Iterable[Json]) -> list[str]:
    """The slots of an OpenAPI document that a template's `auth_tools` fits.

    As UTCP's converter does: the same kind, and for keys the same place and name, whatever its case; a key
    `Bearer ...` in the header Authorization fits a bearer scheme.
    """
    return [str(slot["slot"]) for slot in slots if _fits(auth, slot)]


def _fits(auth: GivenCredential, slot: Json) -> bool:
    kind = slot.get("kind")
    if auth.kind != "api_key":
        return kind == auth.kind
    place = (auth.public.get("location"), str(auth.public.get("name", "")).lower())
    if kind in {"bearer", "oauth2"}:
        scheme = str(auth.secrets.get("value", "")).lower()
        return place == ("header", "authorization") and scheme.startswith("bearer ")
    wanted = (slot.get("location"), str(slot.get("name", "")).lower())
    return kind == "api_key" and place == wanted


def tool_origins(tools: Iterable[SecuredTool], slot: str) -> tuple[str, ...]:
    """The origins of the tools that may use the slot."""
    return tuple(
        dict.fromkeys(tool.origin for tool in tools if tool.origin and slot in slots_of(tool.security))
    )


def slots_of(security: Security) -> set[str]:
    """All slots that a tool's security names."""
    return {need["slot"] for alternative in security for need in alternative}


def without_consent(
    tools: Sequence[SecuredTool],
    *,
    slots: Sequence[Json],
    credentials: Mapping[str, GivenCredential],
    named: tuple[str, ...],
) -> list[Json]:
    """What a credential does not do although the source asks for it: `{slot, origins, token_url?}` each.

    `origins` are those of tools that need the slot and do not get its credential; `token_url` is one of the
    source that differs from the credential's own.
    """
    found: list[Json] = []
    known = {str(slot["slot"]): slot for slot in slots}
    wanted: dict[str, dict[str, None]] = {slot: {} for slot in known}
    for tool in tools:
        for slot in slots_of(tool.security):
            wanted.setdefault(slot, {})[tool.origin] = None
    for slot, origins in wanted.items():
        stored = credentials.get(slot)
        allowed = named if stored is None else (stored.allowed_origins or ())
        others = [origin for origin in origins if origin and allowed and origin not in allowed]
        entry: Json = {"slot": slot, "origins": others}
        documented = known.get(slot, {}).get("token_url")
        if stored is not None and stored.kind == "oauth2" and documented:
            if stored.public.get("token_url") != documented:
                entry["token_url"] = documented
        elif stored is None and documented and named and origin_of(documented) not in named:
            entry["token_url"] = documented
        if others or "token_url" in entry:
            found.append(entry)
    return found

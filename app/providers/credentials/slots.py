"""Credential slots: which credential a tool needs, to which origins it may be sent, and missing consents."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from app.core.errors import FieldError, InvalidInput
from app.core.loopback import is_loopback
from app.core.text import pointer
from app.providers.credentials.input_models import header_problem
from app.providers.credentials.model import (
    DEFAULT_SLOT,
    CredentialDraft,
    CredentialSlot,
    MissingConsent,
    SecurityRequirements,
    SlotAssignment,
    slot_names,
)
from app.providers.credentials.origins import origin_of
from app.security.sealed_credentials import TOKEN_KINDS

Fingerprint = Callable[[CredentialDraft], str]


class SecuredTool(Protocol):
    """The part of a tool that determines its credentials."""

    @property
    def origin(self) -> str:
        """The origin of its calls, `scheme://host[:port]`; "" where there is none."""

    @property
    def security(self) -> SecurityRequirements:
        """Alternatives (OR) of slots that are all needed (AND)."""


class SlotAllocator:
    """Assigns a slot to each distinct credential of a manual: `default`, `default-2`, ...; `static-1`, ...

    `known` maps the fingerprint of a credential of an earlier import to its slot, which it keeps; `taken` are
    further names that are already used.
    """

    def __init__(
        self, fingerprint: Fingerprint, *, known: Mapping[str, str] | None = None, taken: Collection[str] = ()
    ) -> None:
        self._fingerprint = fingerprint
        self._known = dict(known or {})
        self._taken = {*taken, *self._known.values()}
        self._assigned: dict[str, SlotAssignment] = {}

    def assign(self, credential: CredentialDraft, *, origin: str = "") -> str:
        """Return the slot of a credential, and add the origin of the tool in whose template it was.

        Without an origin, it is the credential of `auth_tools`.
        """
        key = self._fingerprint(credential)
        found = self._assigned.get(key)
        if found is None:
            base = "static" if credential.kind == "static" else DEFAULT_SLOT
            slot = self._known.get(key) or self._free(base)
            self._taken.add(slot)
            found = SlotAssignment(slot, credential, key)
        if not origin:
            found = replace(found, is_shared=True)
        elif origin not in found.origins:
            found = replace(found, origins=(*found.origins, origin))
        self._assigned[key] = found
        return found.slot

    @property
    def assignments(self) -> tuple[SlotAssignment, ...]:
        """All credentials that were assigned a slot, in order."""
        return tuple(self._assigned.values())

    def _free(self, base: str) -> str:
        if base == DEFAULT_SLOT and base not in self._taken:
            return base
        count = 1 if base == "static" else 2
        while f"{base}-{count}" in self._taken:
            count += 1
        return f"{base}-{count}"


@dataclass(frozen=True, slots=True)
class Binding:
    """What determines the default destinations of a credential of a provider.

    `registrar_origins` are origins that the registrar named, `tool_origins` those of the tools that need the
    slot. With `loopback_tokens`, a token URL at a loopback address may be http.
    """

    registrar_origins: tuple[str, ...]
    tool_origins: tuple[str, ...]
    loopback_tokens: bool = False


def complete(
    draft: CredentialDraft, *, slot: CredentialSlot | None, binding: Binding, at: str
) -> CredentialDraft:
    """Return the credential with location, name, token URL and allowed origins filled in.

    `slot` is None for a credential that its owner wrote into a template. Raise InvalidInput, with pointers
    below `at`, where one of these cannot be determined and must be given by the owner.
    """
    if slot is not None and slot.kind == "mutual_tls":
        detail = (
            "The client certificate of the provider meets this slot: set its option `client_certificate`."
        )
        raise InvalidInput("The slot takes no credential.", errors=[FieldError(pointer(at, "kind"), detail)])
    if draft.kind == "static" and slot is not None and slot.kind != "static":
        error = FieldError(pointer(at, "kind"), "This slot does not accept a credential of kind `static`.")
        raise InvalidInput("The kind of the credential is not that of the slot.", errors=[error])
    public = {key: value for key, value in draft.public.items() if value is not None}
    if draft.kind == "api_key":
        documented = slot if slot is not None and slot.kind == "api_key" else CredentialSlot("", "api_key")
        public.setdefault("location", documented.location or "header")
        public.setdefault("name", documented.parameter or "X-Api-Key")
        problem = header_problem(public["location"], public["name"])
        if problem:
            error = FieldError(pointer(at, "name"), problem)
            raise InvalidInput("The API key cannot be sent under this name.", errors=[error])
    if draft.kind == "bearer" and slot is not None and slot.http_scheme is not None:
        public.setdefault("scheme", slot.http_scheme)
    if draft.kind in TOKEN_KINDS:
        member, url = _find_documented_url(draft.kind, public, slot)
        public[member] = _token_url(public.get(member), url, binding, at=pointer(at, member))
    origins = draft.allowed_origins or _default_origins(binding, at=pointer(at, "allowed_origins"))
    return CredentialDraft(draft.kind, public, draft.secrets, origins)


def _find_documented_url(
    kind: str, public: dict[str, Any], slot: CredentialSlot | None
) -> tuple[str, str | None]:
    """Return which member of an OAuth2 credential says where tokens come from, and what the slot says of it.

    A token URL that is given needs no metadata, which are removed from `public`.
    """
    if slot is None or kind != "oauth2":
        slot = CredentialSlot("", "any")
    if "token_url" in public or not (public.get("metadata_url") or slot.metadata_url):
        public.pop("metadata_url", None)
        return "token_url", slot.token_url
    return "metadata_url", slot.metadata_url


def _default_origins(binding: Binding, *, at: str) -> tuple[str, ...]:
    if binding.registrar_origins:
        return binding.registrar_origins
    if len(binding.tool_origins) == 1:
        return binding.tool_origins
    detail = (
        "The tools of this provider have several origins: give those to which the credential may be sent."
        if binding.tool_origins
        else "No tool uses this slot: give the origins to which the credential may be sent."
    )
    error = FieldError(at, detail, expected=list(binding.tool_origins) or "array of origins")
    raise InvalidInput("The allowed origins of the credential must be given.", errors=[error])


def _token_url(requested: str | None, documented: str | None, binding: Binding, *, at: str) -> str:
    if requested is None:
        if documented is None:
            error = FieldError(at, "Give the URL of the token endpoint.", expected="uri")
            raise InvalidInput("The token endpoint is not known.", errors=[error])
        if origin_of(documented) not in binding.registrar_origins:
            detail = "The URL in the document has another origin. Give it here if it is correct."
            raise InvalidInput(
                "The token endpoint needs your consent.", errors=[FieldError(at, detail, expected=documented)]
            )
        requested = documented
    if _has_userinfo_or_fragment(requested) or origin_of(requested) is None:
        error = FieldError(at, "Give an absolute URL without userinfo and fragment.", expected="uri")
        raise InvalidInput("The token URL cannot be used.", errors=[error])
    if not requested.lower().startswith("https://") and not (
        binding.loopback_tokens and is_loopback(requested)
    ):
        raise InvalidInput(
            "A client secret is sent over https only.", errors=[FieldError(at, "Give an https:// URL.")]
        )
    return requested


def _has_userinfo_or_fragment(url: str) -> bool:
    return "@" in url.partition("://")[2].partition("/")[0] or "#" in url


def matching_slots(auth: CredentialDraft, slots: Iterable[CredentialSlot]) -> list[str]:
    """Return the names of the slots of an OpenAPI document that a template's `auth_tools` matches.

    The rules are those of UTCP's converter: the same kind and, for API keys, the same location and name
    (case-insensitive); an API key `Bearer ...` in the header Authorization matches a bearer scheme.
    """
    return [slot.name for slot in slots if _matches(auth, slot)]


def _matches(auth: CredentialDraft, slot: CredentialSlot) -> bool:
    if auth.kind == "bearer":
        return slot.kind in {"bearer", "oauth2"}
    if auth.kind != "api_key":
        return slot.kind == auth.kind
    parameter = (auth.public.get("location"), str(auth.public.get("name", "")).lower())
    if slot.kind in {"bearer", "oauth2"}:
        scheme = str(auth.secrets.get("value", "")).lower()
        return parameter == ("header", "authorization") and scheme.startswith("bearer ")
    return slot.kind == "api_key" and parameter == (slot.location, (slot.parameter or "").lower())


def tool_origins(tools: Iterable[SecuredTool], slot: str) -> tuple[str, ...]:
    """Return the distinct origins of the tools that may use the slot."""
    return tuple(
        dict.fromkeys(tool.origin for tool in tools if tool.origin and slot in slot_names(tool.security))
    )


def missing_consents(
    tools: Sequence[SecuredTool],
    *,
    slots: Sequence[CredentialSlot],
    credentials: Mapping[str, CredentialDraft],
    registrar_origins: tuple[str, ...],
) -> list[MissingConsent]:
    """Return, slot by slot, the destinations in the source to which its credential may not be sent yet.

    `credentials` are the stored ones by slot, `registrar_origins` the origins that the registrar named.
    """
    found: list[MissingConsent] = []
    documented_urls = {slot.name: slot.token_url or slot.metadata_url for slot in slots}
    needed: dict[str, dict[str, None]] = {slot: {} for slot in documented_urls}
    for tool in tools:
        for slot in slot_names(tool.security):
            needed.setdefault(slot, {})[tool.origin] = None
    for slot, origins in needed.items():
        stored = credentials.get(slot)
        allowed = registrar_origins if stored is None else (stored.allowed_origins or ())
        others = tuple(origin for origin in origins if origin and allowed and origin not in allowed)
        documented = documented_urls.get(slot)
        is_unused = documented is not None and (
            origin_of(documented) not in registrar_origins and bool(registrar_origins)
            if stored is None
            else stored.kind == "oauth2"
            and documented not in (stored.public.get("token_url"), stored.public.get("metadata_url"))
        )
        if others or is_unused:
            found.append(MissingConsent(slot, others, documented if is_unused else None))
    return found

"""Credential slots: which credential a tool needs, where it may go, and what lacks its owner's consent."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from app.credentials.input_models import header_problem
from app.credentials.model import (
    DEFAULT_SLOT,
    CredentialDraft,
    CredentialSlot,
    MissingConsent,
    SecurityRequirements,
    SlotAssignment,
    slot_names,
)
from app.credentials.origins import is_loopback, origin_of
from app.errors import FieldError, InvalidInput
from app.text import pointer

Fingerprint = Callable[[CredentialDraft], str]


class SecuredTool(Protocol):
    """The parts of a tool that decide over its credentials."""

    @property
    def origin(self) -> str:
        """`scheme://host[:port]`, "" where there is none."""

    @property
    def security(self) -> SecurityRequirements:
        """An OR of ANDs of slots."""


class SlotAllocator:
    """Gives each distinct credential of a manual a slot: `default`, `default-2`, ...; `static-1`, ...

    `known` are the slots of an earlier import by fingerprint, which stay with their content; `taken` are
    further names that mean something already.
    """

    def __init__(
        self, fingerprint: Fingerprint, *, known: Mapping[str, str] | None = None, taken: Collection[str] = ()
    ) -> None:
        self._fingerprint = fingerprint
        self._known = dict(known or {})
        self._taken = {*taken, *self._known.values()}
        self._assigned: dict[str, SlotAssignment] = {}

    def assign(self, credential: CredentialDraft, *, origin: str = "") -> str:
        """Return the slot of this credential, after noting the origin of the tool that it stood at.

        Without an origin it is that of `auth_tools`.
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
    """What decides where a credential of a provider goes by default.

    `named` are origins that the registrar named, `tools` those of the tools that need the slot.
    """

    named: tuple[str, ...]
    tools: tuple[str, ...]
    loopback_tokens: bool = False


def complete(
    given: CredentialDraft, *, slot: CredentialSlot | None, binding: Binding, at: str
) -> CredentialDraft:
    """Return the credential with location, name, token URL and allowed origins filled in.

    `slot` is None for a credential that its owner wrote into a template. Raises InvalidInput, pointing below
    `at`, where one of these cannot be told without the owner's word.
    """
    if given.kind == "static" and slot is not None and slot.kind != "static":
        fault = FieldError(pointer(at, "kind"), "This slot takes no values of a template.")
        raise InvalidInput("The credential is of a kind that does not fit.", errors=[fault])
    public = {key: value for key, value in given.public.items() if value is not None}
    if given.kind == "api_key":
        documented = slot if slot is not None and slot.kind == "api_key" else CredentialSlot("", "api_key")
        public.setdefault("location", documented.location or "header")
        public.setdefault("name", documented.parameter or "X-Api-Key")
        problem = header_problem(public["location"], public["name"])
        if problem:
            fault = FieldError(pointer(at, "name"), problem)
            raise InvalidInput("The API key cannot be sent like this.", errors=[fault])
    if given.kind == "oauth2":
        public["token_url"] = _token_url(
            public.get("token_url"),
            None if slot is None else slot.token_url,
            binding,
            at=pointer(at, "token_url"),
        )
    origins = given.allowed_origins or _default_origins(binding, at=pointer(at, "allowed_origins"))
    return CredentialDraft(given.kind, public, given.secrets, origins)


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
    fault = FieldError(at, detail, expected=list(binding.tools) or "array of origins")
    raise InvalidInput("It is not clear where the credential may be sent.", errors=[fault])


def _token_url(given: str | None, documented: str | None, binding: Binding, *, at: str) -> str:
    if given is None:
        if documented is None:
            fault = FieldError(at, "Give the URL of the token endpoint.", expected="uri")
            raise InvalidInput("The token endpoint is not known.", errors=[fault])
        if origin_of(documented) not in binding.named:
            detail = "The document names this token URL at another origin. Give it here if it is right."
            raise InvalidInput(
                "The token endpoint needs your consent.", errors=[FieldError(at, detail, expected=documented)]
            )
        given = documented
    if origin_of(given) is None or "@" in given.partition("://")[2].partition("/")[0] or "#" in given:
        fault = FieldError(at, "Give an absolute URL without userinfo and fragment.", expected="uri")
        raise InvalidInput("The token URL cannot be used.", errors=[fault])
    if not given.lower().startswith("https://") and not (binding.loopback_tokens and is_loopback(given)):
        raise InvalidInput(
            "A client secret is sent over https only.", errors=[FieldError(at, "Give an https:// URL.")]
        )
    return given


def matching_slots(auth: CredentialDraft, slots: Iterable[CredentialSlot]) -> list[str]:
    """Return the slots of an OpenAPI document that a template's `auth_tools` fits.

    As UTCP's converter does: the same kind, and for keys the same location and name, whatever its case; a
    key `Bearer ...` in the header Authorization fits a bearer scheme.
    """
    return [slot.name for slot in slots if _matches(auth, slot)]


def _matches(auth: CredentialDraft, slot: CredentialSlot) -> bool:
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
    named: tuple[str, ...],
) -> list[MissingConsent]:
    """Return what the source asks of credentials and these do not do, slot by slot.

    `credentials` are those of the slots that have one, `named` the origins that the registrar named.
    """
    found: list[MissingConsent] = []
    documented_urls = {slot.name: slot.token_url for slot in slots}
    needed: dict[str, dict[str, None]] = {slot: {} for slot in documented_urls}
    for tool in tools:
        for slot in slot_names(tool.security):
            needed.setdefault(slot, {})[tool.origin] = None
    for slot, origins in needed.items():
        stored = credentials.get(slot)
        allowed = named if stored is None else (stored.allowed_origins or ())
        others = tuple(origin for origin in origins if origin and allowed and origin not in allowed)
        documented = documented_urls.get(slot)
        is_unused = documented is not None and (
            origin_of(documented) not in named and bool(named)
            if stored is None
            else stored.kind == "oauth2" and stored.public.get("token_url") != documented
        )
        if others or is_unused:
            found.append(MissingConsent(slot, others, documented if is_unused else None))
    return found

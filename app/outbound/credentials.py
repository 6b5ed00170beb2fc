"""Resolution of stored credentials for calls: the only module that decrypts a stored secret for a call.

A tool's security requirements are alternatives (OR) of slots that go together (AND). The first alternative
is used whose slots all hold a credential for the origin that is about to be called. The values of the
template itself (kind `static`) come first and the auth last, so that the auth takes precedence where both
name the same header.

Decrypted credentials of a compiled tool are cached for a minute, since decrypting them costs a twentieth of
a call. A plan that is compiled again, as after each change of a credential or variable, is a cache miss.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from app.outbound.credential_rendering import CredentialRenderer, WireCredential
from app.outbound.egress import EgressSettings
from app.outbound.oauth2 import TokenRequest
from app.outbound.security_requirements import not_allowed, select_alternative
from app.outbound.signing.digest import DigestStates
from app.outbound.tokens import TokenCache, TokenHandle
from app.security.masking import MASK, Masker
from app.security.requirements import SecurityRequirements, SlotRequirement, compile_security
from app.security.response_masking import ResponseMasker
from app.security.sealed_credentials import TOKEN_KINDS, SealedCredential
from app.security.secret import Secret
from app.security.vault import Vault

__all__ = [
    "CredentialResolver",
    "ResolvedCredentials",
    "SecurityRequirements",
    "SlotRequirement",
    "WireCredential",
    "compile_security",
]  # fmt: skip

_CACHE_SECONDS: Final = 60.0
_MAX_CACHED: Final = 4096
_OVER_TLS: Final = ("https:", "wss:", "grpcs:")


class ResolvedCredentials(tuple[WireCredential, ...]):  # noqa: SLOT001 - a subclass of tuple has no slots.
    """The credentials that are sent with a call."""

    masker: ResponseMasker | None = None
    """Masks these credentials in responses, both as they are stored and as they are sent; None where there
    are none. It lives as long as they do."""


@dataclass(slots=True)
class _TokenStep:
    """An OAuth2 credential: the token request, its cache key, and the credential made of the last token."""

    request: TokenRequest
    key: bytes
    slot: str
    wire: WireCredential | None = field(default=None, repr=False)


@dataclass(slots=True)
class _CachedResolution:
    """The decrypted credentials for the requirements, credentials and origin of one plan.

    It refers to the objects of the plan, so that no other object can have their identities meanwhile. `steps`
    are in the order in which they are sent; `values` are masked in logs and errors, `secrets` in responses.
    """

    needs: SecurityRequirements
    credentials: Mapping[str, SealedCredential]
    origin: str
    egress: EgressSettings | None
    expires_at: float
    ids: tuple[UUID, ...]
    steps: list[WireCredential | _TokenStep] = field(repr=False)
    values: tuple[str, ...] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    without_tokens: ResolvedCredentials | None = field(repr=False)
    """The result, where no token is needed."""
    last: ResolvedCredentials | None = field(default=None, repr=False)
    """The result with the tokens of the last call."""
    dropped_before: int = -1
    """How many values the masker had dropped when it last got the `values`; -1 before."""


class CredentialResolver:
    """Decrypts credentials for calls, and adds every value that it reveals to the masker.

    What it decrypted for at most `capacity` plans is cached, for `cache_seconds` each.
    """

    def __init__(
        self,
        vault: Vault,
        tokens: TokenCache,
        masker: Masker,
        *,
        capacity: int = _MAX_CACHED,
        cache_seconds: float = _CACHE_SECONDS,
        used_at: dict[UUID, float] | None = None,
    ) -> None:
        """`used_at` gets the time at which each credential is sent, in seconds since the epoch."""
        self._vault = vault
        self._tokens = tokens
        self._masker = masker
        self._capacity = capacity
        self._cache_seconds = cache_seconds
        self._used_at = used_at
        self._digests = DigestStates()
        self._cache: OrderedDict[int, _CachedResolution] = OrderedDict()

    async def resolve(
        self,
        needs: SecurityRequirements,
        credentials: Mapping[str, SealedCredential],
        *,
        origin: str,
        egress: EgressSettings | None = None,
        deadline: float = math.inf,
    ) -> ResolvedCredentials:
        """Return what to send to `origin` (`scheme://host[:port]`, lower case, without a default port).

        `credentials` are the provider's, by slot. It waits only for an OAuth2 token that is not cached, until
        `deadline` (a `loop.time()`).
        Raises CredentialMissing naming the slots, CredentialNotAllowed where one is stored but not for this
        origin, UnsetVariable, SealBroken, and what `TokenCache.get` raises.
        """
        cached = self._cache.get(id(credentials))
        if (
            cached is None
            or cached.needs is not needs
            or cached.credentials is not credentials
            or cached.origin != origin
            or cached.egress is not egress
            or cached.expires_at <= time.monotonic()
        ):
            cached = self._open(needs, credentials, origin=origin, egress=egress)
        if cached.dropped_before != self._masker.dropped:
            # The masker has dropped values since then, perhaps these.
            self._add_values(cached)
        if self._used_at is not None:
            now = time.time()
            for credential_id in cached.ids:
                self._used_at[credential_id] = now
        if cached.without_tokens is not None:
            return cached.without_tokens
        wires = [
            step if isinstance(step, WireCredential) else await self._with_token(step, deadline=deadline)
            for step in cached.steps
        ]
        last = cached.last
        if last is None or any(wire is not held for wire, held in zip(wires, last, strict=True)):
            tokens = [wire.token.token.reveal() for wire in wires if wire.token is not None]
            sent = [value for token in tokens for value in (token, f"Bearer {token}")]
            last = cached.last = _resolved(wires, (*cached.secrets, *sent))
        return last

    def _add_values(self, cached: _CachedResolution) -> None:
        """Add the values of a resolution to the masker, which drops what is not added for a long time."""
        cached.dropped_before = self._masker.dropped
        for value in cached.values:
            self._masker.add(value)

    async def invalidate(self, handle: TokenHandle) -> None:
        """Drop a token that an upstream has rejected from the cache."""
        await self._tokens.invalidate(handle)

    def preview(
        self,
        needs: SecurityRequirements,
        credentials: Mapping[str, SealedCredential],
        *,
        origin: str,
        egress: EgressSettings | None = None,
    ) -> tuple[WireCredential, ...]:
        """Return what `resolve` would with `***` as each value, without requesting a token: for a dry run.

        Raises what `resolve` raises, except for what getting a token raises.
        """
        wires: list[WireCredential] = []
        renderer = CredentialRenderer(self._vault, origin=origin, digests=self._digests)
        for credential, _ in _select(needs, credentials, origin=origin, egress=egress):
            if credential.kind in TOKEN_KINDS:
                wires.append(WireCredential("header", "Authorization", Secret(MASK), credential.slot))
            else:
                wires += renderer.render(credential)
        self._add_to_masker(renderer)
        return tuple(replace(wire, value=Secret(MASK)) for wire in wires)

    def _open(
        self,
        needs: SecurityRequirements,
        credentials: Mapping[str, SealedCredential],
        *,
        origin: str,
        egress: EgressSettings | None,
    ) -> _CachedResolution:
        renderer = CredentialRenderer(self._vault, origin=origin, digests=self._digests)
        steps: list[WireCredential | _TokenStep] = []
        chosen = _select(needs, credentials, origin=origin, egress=egress)
        for credential, need in chosen:
            if credential.kind in TOKEN_KINDS:
                request = renderer.token_request(credential, scopes=need.scopes, egress=egress)
                steps.append(_TokenStep(request, self._tokens.key_of(request), credential.slot))
            else:
                steps += renderer.render(credential)
        self._add_to_masker(renderer)
        wires = [step for step in steps if isinstance(step, WireCredential)]
        proxied = egress.proxy_password() if egress is not None else ""
        secrets = tuple(dict.fromkeys((*renderer.secrets, proxied)))
        now = time.monotonic()
        resolution = _CachedResolution(
            needs=needs,
            credentials=credentials,
            origin=origin,
            egress=egress,
            expires_at=now + self._cache_seconds,
            ids=tuple(credential.id for credential, _ in chosen),
            steps=steps,
            values=tuple(dict.fromkeys(renderer.values)),
            secrets=secrets,
            without_tokens=_resolved(wires, secrets) if len(wires) == len(steps) else None,
        )
        self._store(resolution, now)
        return resolution

    def _store(self, resolution: _CachedResolution, now: float) -> None:
        cached = self._cache
        cached.pop(id(resolution.credentials), None)
        cached[id(resolution.credentials)] = resolution
        # They are in the order in which they expire.
        while len(cached) > self._capacity or next(iter(cached.values())).expires_at <= now:
            cached.popitem(last=False)

    async def _with_token(self, step: _TokenStep, *, deadline: float) -> WireCredential:
        handle = await self._tokens.get(step.request, key=step.key, deadline=deadline)
        wire = step.wire
        if wire is None or wire.token is not handle:
            value = Secret(f"Bearer {handle.token.reveal()}")
            wire = step.wire = WireCredential("header", "Authorization", value, step.slot, handle)
        self._masker.add(handle.token.reveal())
        return wire

    def _add_to_masker(self, renderer: CredentialRenderer) -> None:
        for value in renderer.values:
            self._masker.add(value)


def _resolved(wires: Iterable[WireCredential], secrets: Iterable[str]) -> ResolvedCredentials:
    resolved = ResolvedCredentials(wires)
    resolved.masker = ResponseMasker.for_values(secrets)
    return resolved


def _select(
    needs: SecurityRequirements,
    credentials: Mapping[str, SealedCredential],
    *,
    origin: str,
    egress: EgressSettings | None,
) -> list[tuple[SealedCredential, SlotRequirement]]:
    chosen: list[tuple[SealedCredential, SlotRequirement]] = []
    for credential in credentials.values():
        if credential.kind == "static":
            if origin not in credential.allowed_origins:
                raise not_allowed(credential, origin)
            chosen.append((credential, SlotRequirement(credential.slot)))
    has_certificate = (
        egress is not None and egress.client_certificate is not None and origin.startswith(_OVER_TLS)
    )
    return chosen + select_alternative(needs, credentials, origin=origin, has_certificate=has_certificate)

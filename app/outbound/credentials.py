"""Provider auth -> what goes on the wire: the one place where a stored secret is opened for a call.

A tool's needs are alternatives (OR) of slots that go together (AND). The first alternative whose slots are
all stored, for the origin that is about to be called, is taken. The values of the template itself (kind
`static`) come first and the auth last, so that the auth wins where both name the same header.

What was opened for a compiled tool is remembered for a minute, since opening it anew costs a twentieth of a
call. A plan that is compiled anew, as after each change of a credential or variable, begins anew here, too.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from app.outbound.egress import EgressSettings
from app.outbound.needs import Need, Needs, chosen_alternative, compile_needs, not_allowed
from app.outbound.oauth2 import TokenRequest
from app.outbound.tokens import TokenCache, TokenHandle
from app.outbound.wiring import Opening, WireCredential
from app.security.credentials import SealedCredential
from app.security.masking import MASK, Masker
from app.security.response_masking import ResponseMasker
from app.security.secret import Secret
from app.security.vault import Vault

__all__ = [
    "CredentialResolver", "Need", "Needs", "ResolvedCredentials", "WireCredential", "compile_needs",
]  # fmt: skip

_OPEN_SECONDS: Final = 60.0
_MOST_OPEN: Final = 4096


class ResolvedCredentials(tuple[WireCredential, ...]):  # noqa: SLOT001 - one of a tuple has no slots.
    """What goes on the wire with a call."""

    masker: ResponseMasker | None = None
    """Masks these credentials, as they are stored and as they are sent, in responses; None where there are
    none. It lives as long as they do."""


@dataclass(slots=True)
class _Tokened:
    """An OAuth2 credential: what to ask for, and what the last token became."""

    request: TokenRequest
    key: bytes
    slot: str
    wire: WireCredential | None = field(default=None, repr=False)


@dataclass(slots=True)
class _Opened:
    """What was found for the needs, credentials and origin of one plan; it holds them, so that no other
    object can have their identities meanwhile.
    """

    needs: Needs
    credentials: Mapping[str, SealedCredential]
    origin: str
    egress: EgressSettings | None
    until: float
    steps: list[WireCredential | _Tokened] = field(repr=False)
    values: tuple[str, ...] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    fixed: ResolvedCredentials | None = field(repr=False)
    """All of it, where no token is needed."""
    last: ResolvedCredentials | None = field(default=None, repr=False)
    """All of it with the tokens that the last call had."""


class CredentialResolver:
    """Opens credentials for calls, and tells the masker every value that it reveals."""

    def __init__(self, vault: Vault, tokens: TokenCache, masker: Masker) -> None:
        self._vault = vault
        self._tokens = tokens
        self._masker = masker
        self._known: OrderedDict[int, _Opened] = OrderedDict()

    async def resolve(
        self,
        needs: Needs,
        credentials: Mapping[str, SealedCredential],
        *,
        origin: str,
        egress: EgressSettings | None = None,
        deadline: float = math.inf,
    ) -> ResolvedCredentials:
        """What to send to `origin` (`scheme://host[:port]`, lower case, without a default port).

        `credentials` are the provider's, by slot. Only an OAuth2 token that is not cached is waited for,
        until `deadline` (a `loop.time()`).
        Raises CredentialMissing naming the slots, CredentialNotAllowed where one is stored but not for this
        origin, UnsetVariable, SealBroken, and what getting a token raises.
        """
        known = self._known.get(id(credentials))
        if (
            known is None
            or known.needs is not needs
            or known.credentials is not credentials
            or known.origin != origin
            or known.egress is not egress
            or known.until <= time.monotonic()
        ):
            known = self._open(needs, credentials, origin=origin, egress=egress)
        for value in known.values:
            # The masker forgets what was not used for long.
            self._masker.add(value)
        if known.fixed is not None:
            return known.fixed
        wires = [
            step if isinstance(step, WireCredential) else await self._tokened(step, deadline=deadline)
            for step in known.steps
        ]
        last = known.last
        if last is None or any(wire is not held for wire, held in zip(wires, last, strict=True)):
            tokens = [wire.token.token.reveal() for wire in wires if wire.token is not None]
            sent = [value for token in tokens for value in (token, f"Bearer {token}")]
            last = known.last = _resolved(wires, (*known.secrets, *sent))
        return last

    async def invalidate(self, handle: TokenHandle) -> None:
        """Forget a token that an upstream refused."""
        await self._tokens.invalidate(handle)

    def preview(
        self, needs: Needs, credentials: Mapping[str, SealedCredential], *, origin: str
    ) -> tuple[WireCredential, ...]:
        """The same places with `***` as each value, without asking for a token: for a dry run."""
        wired: list[WireCredential] = []
        opening = Opening(self._vault)
        for credential, _ in _chosen(needs, credentials, origin=origin):
            if credential.kind == "oauth2":
                wired.append(WireCredential("header", "Authorization", Secret(MASK), credential.slot))
            else:
                wired += opening.wires(credential)
        self._tell(opening)
        return tuple(WireCredential(wire.location, wire.name, Secret(MASK), wire.slot) for wire in wired)

    def _open(
        self,
        needs: Needs,
        credentials: Mapping[str, SealedCredential],
        *,
        origin: str,
        egress: EgressSettings | None,
    ) -> _Opened:
        opening = Opening(self._vault)
        steps: list[WireCredential | _Tokened] = []
        for credential, need in _chosen(needs, credentials, origin=origin):
            if credential.kind == "oauth2":
                request = opening.token_request(credential, scopes=need.scopes, egress=egress)
                steps.append(_Tokened(request, self._tokens.key_of(request), credential.slot))
            else:
                steps += opening.wires(credential)
        self._tell(opening)
        wires = [step for step in steps if isinstance(step, WireCredential)]
        proxied = egress.proxy_password() if egress is not None else ""
        secrets = tuple(dict.fromkeys((*opening.secrets, proxied)))
        now = time.monotonic()
        opened = _Opened(
            needs=needs,
            credentials=credentials,
            origin=origin,
            egress=egress,
            until=now + _OPEN_SECONDS,
            steps=steps,
            values=tuple(dict.fromkeys(opening.values)),
            secrets=secrets,
            fixed=_resolved(wires, secrets) if len(wires) == len(steps) else None,
        )
        self._remember(opened, now)
        return opened

    def _remember(self, opened: _Opened, now: float) -> None:
        known = self._known
        known.pop(id(opened.credentials), None)
        known[id(opened.credentials)] = opened
        # In the order in which they end.
        while len(known) > _MOST_OPEN or next(iter(known.values())).until <= now:
            known.popitem(last=False)

    async def _tokened(self, step: _Tokened, *, deadline: float) -> WireCredential:
        handle = await self._tokens.get(step.request, key=step.key, deadline=deadline)
        wire = step.wire
        if wire is None or wire.token is not handle:
            value = Secret(f"Bearer {handle.token.reveal()}")
            wire = step.wire = WireCredential("header", "Authorization", value, step.slot, handle)
        self._masker.add(handle.token.reveal())
        return wire

    def _tell(self, opening: Opening) -> None:
        for value in opening.values:
            self._masker.add(value)


def _resolved(wires: Iterable[WireCredential], secrets: Iterable[str]) -> ResolvedCredentials:
    resolved = ResolvedCredentials(wires)
    resolved.masker = ResponseMasker.of(secrets)
    return resolved


def _chosen(
    needs: Needs, credentials: Mapping[str, SealedCredential], *, origin: str
) -> list[tuple[SealedCredential, Need]]:
    chosen: list[tuple[SealedCredential, Need]] = []
    for credential in credentials.values():
        if credential.kind == "static":
            if origin not in credential.allowed_origins:
                raise not_allowed(credential, origin)
            chosen.append((credential, Need(credential.slot)))
    return chosen + chosen_alternative(needs, credentials, origin=origin)

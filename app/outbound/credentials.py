"""Provider auth -> what goes on the wire: the one place where a stored secret is opened for a call.

A tool's needs are alternatives (OR) of slots that go together (AND). The first alternative whose slots are
all stored, for the origin that is about to be called, is taken. The values of the template itself (kind
`static`) come first and the auth last, so that the auth wins where both name the same header.
"""

import base64
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from app.errors import CredentialMissing, CredentialNotAllowed, Fault, UnsetVariable
from app.outbound.egress import EgressSettings
from app.outbound.oauth2 import AuthMethod, TokenRequest
from app.outbound.tokens import TokenCache, TokenHandle
from app.security.credentials import SealedCredential, SealedVariable, open_credential, open_variable
from app.security.masking import MASK, Masker
from app.security.secret import Secret
from app.security.vault import Vault

Location = Literal["header", "query", "cookie"]

_VARIABLE = re.compile(r"\$\{([A-Za-z0-9_]+)\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_COOKIE_BREAK = re.compile(r"[\x00-\x20\x7f;,\"\\]")
# Template headers whose values are in half of all answers; to strike these out would mask words, not secrets.
_PLAIN_HEADERS = re.compile(r"(accept|content)(-.*)?|user-agent|cache-control|.*version", re.IGNORECASE)
_SHORTEST_STATIC = 8


class Need(NamedTuple):
    """One slot that a tool needs, with the OAuth2 scopes that its operation asks for."""

    slot: str
    scopes: tuple[str, ...] = ()


Needs = tuple[tuple[Need, ...], ...]


@dataclass(slots=True)
class WireCredential:  # made at each call; a frozen one costs twice as much
    """A value and its place in the request. `token` is what to invalidate where the upstream refuses it."""

    location: Location
    name: str
    value: Secret
    slot: str
    token: TokenHandle | None = None


def compile_needs(security: Iterable[Iterable[Mapping[str, Any]]]) -> Needs:
    """From a tool's stored `security`: `[[{"slot": ..., "scopes": [...]}, ...], ...]`."""
    return tuple(
        tuple(Need(need["slot"], tuple(need.get("scopes") or ())) for need in alternative)
        for alternative in security
    )


class CredentialResolver:
    """Opens credentials for calls, and tells the masker every value that it reveals."""

    def __init__(self, vault: Vault, tokens: TokenCache, masker: Masker) -> None:
        self._vault = vault
        self._tokens = tokens
        self._masker = masker

    async def resolve(
        self,
        needs: Needs,
        credentials: Mapping[str, SealedCredential],
        *,
        origin: str,
        egress: EgressSettings | None = None,
        deadline: float = math.inf,
    ) -> tuple[WireCredential, ...]:
        """What to send to `origin` (`scheme://host[:port]`, lower case, without a default port).

        `credentials` are the provider's, by slot. Only an OAuth2 token that is not cached is waited for,
        until `deadline` (a `loop.time()`).
        Raises CredentialMissing naming the slots, CredentialNotAllowed where one is stored but not for this
        origin, UnsetVariable, SealBroken, and what getting a token raises.
        """
        wired: list[WireCredential] = []
        for credential, need in self._chosen(needs, credentials, origin=origin):
            fields = self._opened(credential)
            if credential.kind == "oauth2":
                request = _token_request(credential, fields, need=need, egress=egress)
                handle = await self._tokens.get(request, deadline=deadline)
                self._reveal(request.client_secret.reveal(), handle.token.reveal())
                value = Secret(f"Bearer {handle.token.reveal()}")
                wired.append(WireCredential("header", "Authorization", value, credential.slot, handle))
            else:
                wired += self._wire(credential, fields)
        return tuple(wired)

    async def invalidate(self, handle: TokenHandle) -> None:
        """Forget a token that an upstream refused."""
        await self._tokens.invalidate(handle)

    def preview(
        self, needs: Needs, credentials: Mapping[str, SealedCredential], *, origin: str
    ) -> tuple[WireCredential, ...]:
        """The same places with `***` as each value, without asking for a token: for a dry run."""
        wired: list[WireCredential] = []
        for credential, _ in self._chosen(needs, credentials, origin=origin):
            if credential.kind == "oauth2":
                wired.append(WireCredential("header", "Authorization", Secret(MASK), credential.slot))
            else:
                wired += self._wire(credential, self._opened(credential))
        return tuple(WireCredential(wire.location, wire.name, Secret(MASK), wire.slot) for wire in wired)

    def _chosen(
        self, needs: Needs, credentials: Mapping[str, SealedCredential], *, origin: str
    ) -> list[tuple[SealedCredential, Need]]:
        chosen: list[tuple[SealedCredential, Need]] = []
        for credential in credentials.values():
            if credential.kind == "static":
                if origin not in credential.allowed_origins:
                    raise _not_allowed(credential, origin)
                chosen.append((credential, Need(credential.slot)))
        return chosen + _alternative(needs, credentials, origin=origin)

    def _opened(self, credential: SealedCredential) -> dict[str, Any]:
        """The secret fields with every `${NAME}` in them replaced, once."""
        fields = open_credential(credential, vault=self._vault)
        variables = {variable.name: variable for variable in credential.variables}
        return {name: self._substituted(value, variables) for name, value in fields.items()}

    def _substituted(self, value: Any, variables: Mapping[str, SealedVariable]) -> Any:
        if isinstance(value, str):
            if "${" not in value:
                return value
            return _VARIABLE.sub(lambda found: self._variable(found[1], variables), value)
        if isinstance(value, dict):
            return {name: self._substituted(member, variables) for name, member in value.items()}
        if isinstance(value, list):
            return [self._substituted(member, variables) for member in value]
        return value

    def _variable(self, name: str, variables: Mapping[str, SealedVariable]) -> str:
        variable = variables.get(name)
        value = open_variable(variable, vault=self._vault) if variable is not None else None
        if variable is None or value is None:
            raise UnsetVariable(
                f"The variable {name}, which a stored credential names, has no value.",
                extra={"variables": [name]},
            )
        if variable.secret:
            self._reveal(value)
        return value

    def _wire(self, credential: SealedCredential, fields: Mapping[str, Any]) -> list[WireCredential]:
        slot = credential.slot
        if credential.kind == "api_key":
            location: Location = credential.public.get("location", "header")
            name = str(credential.public.get("name") or "X-Api-Key")
            self._reveal(fields["value"])
            return [_checked(WireCredential(location, name, Secret(fields["value"]), slot))]
        if credential.kind == "bearer":
            self._reveal(fields["token"])
            value = Secret(f"Bearer {fields['token']}")
            return [_checked(WireCredential("header", "Authorization", value, slot))]
        if credential.kind == "basic":
            return [self._basic(fields["username"], fields["password"], slot=slot)]
        return self._static(credential, fields)

    def _static(self, credential: SealedCredential, fields: Mapping[str, Any]) -> list[WireCredential]:
        wired: list[WireCredential] = []
        places: tuple[tuple[Location, str], ...] = (("header", "headers"), ("query", "query"))
        for location, field in places:
            for name, values in (fields.get(field) or {}).items():
                for value in values if isinstance(values, list) else [values]:
                    text = str(value)
                    if len(text) >= _SHORTEST_STATIC and not _PLAIN_HEADERS.fullmatch(name):
                        self._reveal(text)
                    wired.append(_checked(WireCredential(location, name, Secret(text), credential.slot)))
        if fields.get("basic"):
            username, password = fields["basic"]
            wired.append(self._basic(username, password, slot=credential.slot))
        return wired

    def _basic(self, username: str, password: str, *, slot: str) -> WireCredential:
        """RFC 7617 in UTF-8."""
        coded = base64.b64encode(f"{username}:{password}".encode()).decode()
        self._reveal(password, coded)
        return WireCredential("header", "Authorization", Secret(f"Basic {coded}"), slot)

    def _reveal(self, *values: str) -> None:
        for value in values:
            self._masker.add(value)


def _alternative(
    needs: Needs, credentials: Mapping[str, SealedCredential], *, origin: str
) -> list[tuple[SealedCredential, Need]]:
    """The first alternative that is stored and allowed. An empty one means: send what is stored, else
    nothing."""
    optional = not needs
    barred: SealedCredential | None = None
    for alternative in needs:
        if not alternative:
            optional = True
            continue
        found = [(credentials[need.slot], need) for need in alternative if need.slot in credentials]
        if len(found) < len(alternative):
            continue
        outside = [credential for credential, _ in found if origin not in credential.allowed_origins]
        if not outside:
            return [pair for pair in found if pair[0].kind != "static"]
        barred = barred or outside[0]
    if barred is not None:
        raise _not_allowed(barred, origin)
    if optional:
        return []
    raise _missing(needs)


def _not_allowed(credential: SealedCredential, origin: str) -> CredentialNotAllowed:
    return CredentialNotAllowed(
        f"The credential in slot {credential.slot!r} may not be sent to {origin}: "
        "add this origin to its allowed origins first.",
        extra={"slot": credential.slot, "origin": origin},
    )


def _missing(needs: Needs) -> CredentialMissing:
    ways = [" and ".join(repr(need.slot) for need in alternative) for alternative in needs]
    slots = list(dict.fromkeys(need.slot for alternative in needs for need in alternative))
    return CredentialMissing(
        f"Store a credential in slot {', or in '.join(ways)}.",
        errors=[Fault("", f"No credential is stored in slot {slot!r}.") for slot in slots],
        extra={"slots": slots},
    )


def _checked(wire: WireCredential) -> WireCredential:
    """Refuse a value that would end its header, query or cookie early. The message holds none of it."""
    forbidden = _COOKIE_BREAK if wire.location == "cookie" else _CONTROL
    if wire.location != "query" and forbidden.search(wire.value.reveal()):
        raise CredentialMissing(
            f"The credential in slot {wire.slot!r} holds characters that a {wire.location} cannot carry, "
            "perhaps a line break at its end: store it again.",
            extra={"slots": [wire.slot]},
        )
    return wire


def _token_request(
    credential: SealedCredential, fields: Mapping[str, Any], *, need: Need, egress: EgressSettings | None
) -> TokenRequest:
    public = credential.public
    method: AuthMethod = public.get("token_endpoint_auth_method") or "auto"
    return TokenRequest(
        tenant_id=credential.tenant_id,
        credential_id=credential.id,
        version=credential.version,
        token_url=str(public.get("token_url") or ""),
        client_id=Secret(fields["client_id"]),
        client_secret=Secret(fields["client_secret"]),
        scope=_scope(public.get("scope"), need.scopes),
        audience=str(public.get("audience") or ""),
        resource=str(public.get("resource") or ""),
        auth_method=method,
        egress=egress,
    )


def _scope(own: str | Sequence[str] | None, asked: tuple[str, ...]) -> str:
    """The credential's own scope where it has one, else what the operation asks for."""
    if own:
        return own if isinstance(own, str) else " ".join(own)
    return " ".join(asked)

"""Rendering stored credentials: decrypting them and giving them the form in which they are sent."""

import base64
import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.core.errors import CredentialMissing, CredentialNotAllowed, InvalidInput, UnsetVariable
from app.formats.utcp.oauth2_grant import read_google_key
from app.formats.utcp.paths import compile_url
from app.formats.utcp.signature_recipe import SignatureRecipe, decode_key
from app.outbound.assertions import AssertionSettings
from app.outbound.egress import EgressSettings
from app.outbound.oauth2 import TokenRequest
from app.outbound.signing.aws_sigv4 import AwsSigV4Signer
from app.outbound.signing.digest import DigestSigner, DigestStates
from app.outbound.signing.hmac_signature import HmacSigner
from app.outbound.signing.signer import RequestSigner
from app.outbound.tokens import TokenHandle
from app.security.sealed_credentials import (
    TOKEN_KINDS,
    SealedCredential,
    SealedVariable,
    open_credential,
    open_variable,
)
from app.security.secret import Secret
from app.security.vault import Vault

Location = Literal["header", "query", "cookie", "field", "signature"]
"""The part of a request. `field` is a value of the call template, named by its JSON pointer (RFC 6901);
`signature` are headers that depend on the whole request."""

_VARIABLE = re.compile(r"\$\{([A-Za-z0-9_]+)\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOT_IN_COOKIE = re.compile(r"[\x00-\x20\x7f;,\"\\]")
# Template headers whose values occur in many responses; masking these would mask words, not secrets.
_COMMON_HEADERS = re.compile(r"(accept|content)(-.*)?|user-agent|cache-control|.*version", re.IGNORECASE)
_MIN_STATIC_LENGTH = 8
# Values of a template's headers, query or environment that do not look like a secret, unless their name says
# otherwise: a URL without userinfo and query, a path, a media type, words, a date, a version.
_PUBLIC_VALUE = re.compile(
    r"https?://[^@?\s]*|/[a-z0-9_.-]+(?:[/:]+[a-z0-9_.-]+)*/?|[a-z]+/[a-z0-9.+*-]+(?:; ?[a-z]+=[\w.-]+)*"
    r"|(?:[A-Z]?[a-z]+|[A-Z]+)(?:[-_.,;:/ ]+(?:[A-Z]?[a-z]+|[A-Z]+))*|\d{4}-\d\d-\d\d(?:[-.][a-z]+)?"
    r"|v?\d+(?:\.\d+)*"
)
_SECRET_NAME = re.compile(
    r"auth(?!or(?!i))|token|secret|passw|pwd|passphrase|key(?!w)|cookie|session|signature|(?<![a-z])sig(?![a-z])"
    r"|jwt|credential|hmac|private|license",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9_-]{1,20}) +(\S.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WireCredential:
    """A value and its location in a request. `token` is what to invalidate if the upstream rejects it.

    `signer` is set where the location is `signature`; `value` is then the key, which is never sent.
    """

    location: Location
    name: str
    value: Secret
    slot: str
    token: TokenHandle | None = None
    signer: RequestSigner | None = None


class CredentialRenderer:
    """Decrypts and renders credentials, and collects in `values` the texts to mask in logs and errors.

    `secrets` are the texts to mask in successful responses: `values` without those of a template that do not
    look like secrets, and with the secret parts of a header's value.
    """

    def __init__(self, vault: Vault, *, origin: str = "", digests: DigestStates | None = None) -> None:
        self._vault = vault
        self._origin = origin
        self._digests = digests or DigestStates()
        self.values: list[str] = []
        self.secrets: list[str] = []

    def token_request(
        self, credential: SealedCredential, *, scopes: tuple[str, ...], egress: EgressSettings | None
    ) -> TokenRequest:
        """Return the token request of an OAuth2 credential or a Google service account.

        Raises UnsetVariable, SealBroken, and CredentialMissing for a key file that cannot be read.
        """
        fields = self._fields(credential)
        public = credential.public
        is_google = credential.kind == "google_service_account"
        if is_google:
            self._add(fields["key"])
            fields = self._google_fields(credential, fields["key"])
        for name in ("client_secret", "refresh_token", "private_key"):
            if fields.get(name):
                self._add(fields[name])
        return TokenRequest(
            tenant_id=credential.tenant_id,
            credential_id=credential.id,
            version=credential.version,
            token_url=str(public.get("token_url") or ""),
            metadata_url=str(public.get("metadata_url") or ""),
            client_id=Secret(fields.get("client_id") or ""),
            client_secret=Secret(fields["client_secret"]) if "client_secret" in fields else None,
            scope=_scope(public.get("scope"), scopes),
            audience=str(public.get("audience") or ""),
            resource=str(public.get("resource") or ""),
            auth_method="none" if is_google else public.get("token_endpoint_auth_method") or "auto",
            egress=egress,
            grant_type="jwt_bearer" if is_google else public.get("grant_type") or "client_credentials",
            refresh_token=Secret(fields["refresh_token"]) if fields.get("refresh_token") else None,
            assertion=_assertion(fields, public, is_google=is_google),
        )

    def _google_fields(self, credential: SealedCredential, key: str) -> dict[str, Any]:
        """Return the fields of a key file; raise CredentialMissing where it cannot be read."""
        account = read_google_key(key)
        if account is None:
            raise CredentialMissing(
                f"The credential in slot {credential.slot!r} is no key file of a service account.",
                extra={"slots": [credential.slot]},
            )
        return {
            "issuer": account["client_email"],
            "private_key": account["private_key"],
            "key_id": account.get("private_key_id"),
        }

    def render(self, credential: SealedCredential) -> list[WireCredential]:
        """Return the headers, cookies, query parameters and fields of a credential that is not OAuth2.

        Raises CredentialMissing for a value that its location cannot carry, UnsetVariable and SealBroken.
        """
        fields = self._fields(credential)
        slot = credential.slot
        if credential.kind == "api_key":
            location: Location = credential.public.get("location", "header")
            name = str(credential.public.get("name") or "X-Api-Key")
            self._add(fields["value"])
            self.secrets += secret_parts(fields["value"])
            return [_check(WireCredential(location, name, Secret(fields["value"]), slot))]
        if credential.kind == "bearer":
            self._add(fields["token"])
            value = Secret(f"{credential.public.get('scheme') or 'Bearer'} {fields['token']}")
            self.secrets.append(value.reveal())
            return [_check(WireCredential("header", "Authorization", value, slot))]
        if credential.kind == "basic":
            return [self._basic(fields["username"], fields["password"], slot=slot)]
        if credential.kind in ("aws_sigv4", "hmac", "digest"):
            return [self._signing(credential, fields)]
        return self._static(fields, slot=slot)

    def _signing(self, credential: SealedCredential, fields: Mapping[str, Any]) -> WireCredential:
        """Return the signer of a credential; raise CredentialMissing for a key that is written otherwise."""
        signer: RequestSigner
        if credential.kind == "aws_sigv4":
            key = fields["secret_access_key"]
            token = fields.get("session_token")
            signer = AwsSigV4Signer(
                access_key_id=fields["access_key_id"],
                secret_access_key=Secret(key),
                region=str(credential.public["region"]),
                service=str(credential.public["service"]),
                session_token=Secret(token) if token else None,
            )
            if token:
                self._add(token)
        elif credential.kind == "hmac":
            key = fields["secret"]
            recipe = SignatureRecipe.model_validate(credential.public)
            try:
                raw = decode_key(Secret(key), recipe.secret_encoding)
            except ValueError as error:
                raise CredentialMissing(
                    f"The credential in slot {credential.slot!r} cannot be used: {error}",
                    extra={"slots": [credential.slot]},
                ) from None
            signer = HmacSigner(recipe, raw, fields.get("key_id") or "")
        else:
            key = fields["password"]
            state = self._digests.of(credential.id, credential.version, self._origin)
            signer = DigestSigner(fields["username"], Secret(key), state)
        self._add(key)
        return WireCredential(
            "signature", signer.header_names[0], Secret(key), credential.slot, signer=signer
        )

    def _fields(self, credential: SealedCredential) -> dict[str, Any]:
        """Return the secret fields with every `${NAME}` in them replaced, once."""
        fields = open_credential(credential, vault=self._vault)
        # A refresh token that was issued is text, in which nothing is a variable (see `RefreshTokens`).
        fields.pop("issued", None)
        variables = {variable.name: variable for variable in credential.variables}
        # A token is requested with the fields of these kinds: they go there, and not to the tool's origin.
        is_token = credential.kind in TOKEN_KINDS
        going = destinations_of(credential) if is_token else (self._origin,)
        for variable in credential.variables:
            _require_allowed(variable, going)
        return {name: self._substitute(value, variables) for name, value in fields.items()}

    def _substitute(self, value: Any, variables: Mapping[str, SealedVariable]) -> Any:
        if isinstance(value, str):
            if "${" not in value:
                return value
            return _VARIABLE.sub(lambda found: self._variable(found[1], variables), value)
        if isinstance(value, dict):
            return {name: self._substitute(member, variables) for name, member in value.items()}
        if isinstance(value, list):
            return [self._substitute(member, variables) for member in value]
        return value

    def _variable(self, name: str, variables: Mapping[str, SealedVariable]) -> str:
        variable = variables.get(name)
        value = open_variable(variable, vault=self._vault) if variable is not None else None
        if variable is None or value is None:
            raise UnsetVariable(
                f"{name} not configured: a stored credential names this variable, which has no value.",
                extra={"variables": [name]},
            )
        if variable.secret:
            self._add(value)
        return value

    def _static(self, fields: Mapping[str, Any], *, slot: str) -> list[WireCredential]:
        rendered: list[WireCredential] = []
        locations: tuple[tuple[Location, str], ...] = (("header", "headers"), ("query", "query"))
        for location, field in locations:
            for name, values in (fields.get(field) or {}).items():
                for value in values if isinstance(values, list) else [values]:
                    text = str(value)
                    if len(text) >= _MIN_STATIC_LENGTH and not _COMMON_HEADERS.fullmatch(name):
                        self.values.append(text)
                    self._add_static(name, text)
                    rendered.append(_check(WireCredential(location, name, Secret(text), slot)))
        for pointer, text in (fields.get("fields") or {}).items():
            if len(text) >= _MIN_STATIC_LENGTH:
                self.values.append(text)
            self._add_static(pointer.rpartition("/")[2], text)
            rendered.append(WireCredential("field", pointer, Secret(text), slot))
        if fields.get("basic"):
            username, password = fields["basic"]
            rendered.append(self._basic(username, password, slot=slot))
        return rendered

    def _basic(self, username: str, password: str, *, slot: str) -> WireCredential:
        """Return the header of HTTP Basic (RFC 7617), encoded as UTF-8."""
        coded = base64.b64encode(f"{username}:{password}".encode()).decode()
        self.values += (password, coded)
        self.secrets += (f"{username}:{password}", f"Basic {coded}", coded, password)
        if not password:
            # Some APIs take their key as the username, with an empty password.
            self.secrets.append(username)
        return WireCredential("header", "Authorization", Secret(f"Basic {coded}"), slot)

    def _add(self, value: str) -> None:
        self.values.append(value)
        self.secrets.append(value)

    def _add_static(self, name: str, text: str) -> None:
        if is_secret(name, text):
            self.secrets += (text, *secret_parts(text))


def destinations_of(credential: SealedCredential) -> tuple[str, ...]:
    """Return the origins to which the fields of a credential are sent: that of its token URL (which is also
    that of its metadata), or else all that it is allowed for.
    """
    if credential.kind not in TOKEN_KINDS:
        return credential.allowed_origins
    try:
        public = credential.public
        return (compile_url(str(public.get("token_url") or public.get("metadata_url") or "")).origin,)
    except InvalidInput:
        return ()


def variable_not_allowed(name: str, origin: str) -> CredentialNotAllowed:
    """Return the error for a shared secret variable that would be sent to an origin that it has not."""
    error = CredentialNotAllowed(
        f"The secret variable {name}, which all providers share, may not be sent to {origin}: "
        "add this origin to its allowed origins first.",
        extra={"variable": name, "origin": origin},
    )
    error.hint = (
        "If the variable may be sent there, add the origin to its `allowed_origins` with "
        "PATCH /variables/{variable}; or give the provider a variable of its own."
    )
    return error


def _require_allowed(variable: SealedVariable, destinations: Iterable[str]) -> None:
    if variable.allowed_origins is None:
        return
    for origin in destinations:
        if origin not in variable.allowed_origins:
            raise variable_not_allowed(variable.name, origin)


def is_secret(name: str, text: str) -> bool:
    """Return whether a value of a template or an environment is masked in successful responses.

    It is, unless the header is a common one such as Accept, or neither the name nor the value looks like that
    of a secret: `X-Locale: en-US`, `fields=id,name`, `PATH=/usr/bin`.
    """
    if _SECRET_NAME.search(name) is not None:
        return True
    return _COMMON_HEADERS.fullmatch(name) is None and _PUBLIC_VALUE.fullmatch(text) is None


def secret_parts(text: str) -> list[str]:
    """Return the parts of a header's value that are secret by themselves.

    These are the credentials after an authentication scheme (RFC 9110 section 11.4), the user-pass and the
    password of Basic, and the values of cookies.
    """
    scheme = _SCHEME.fullmatch(text)
    if scheme is not None:
        parts = [scheme[2]]
        if scheme[1].lower() == "basic":
            with contextlib.suppress(ValueError):
                pair = base64.b64decode(scheme[2] + "==").decode()
                parts += (pair, pair.partition(":")[2])
        return parts
    if "=" in text and ";" in text:
        return [pair.partition("=")[2].strip() for pair in text.split(";")]
    return []


def _assertion(
    fields: Mapping[str, Any], public: Mapping[str, Any], *, is_google: bool
) -> AssertionSettings | None:
    if not fields.get("private_key"):
        return None
    return AssertionSettings(
        private_key=Secret(fields["private_key"]),
        issuer=str(fields.get("issuer") or public.get("issuer") or ""),
        subject=str(public.get("subject") or ""),
        audience=str(public.get("assertion_audience") or ""),
        key_id=str(fields.get("key_id") or public.get("key_id") or ""),
        algorithm=str(public.get("signing_algorithm") or ""),
        has_scope=is_google,
    )


def _check(wire: WireCredential) -> WireCredential:
    """Raise CredentialMissing for a value that would end its header or cookie early, without showing it."""
    forbidden = _NOT_IN_COOKIE if wire.location == "cookie" else _CONTROL
    if wire.location != "query" and forbidden.search(wire.value.reveal()):
        raise CredentialMissing(
            f"The credential in slot {wire.slot!r} has characters that a {wire.location} cannot carry, "
            "perhaps a line break at its end: store it again.",
            extra={"slots": [wire.slot]},
        )
    return wire


def _scope(own: str | Sequence[str] | None, required: tuple[str, ...]) -> str:
    """Return the credential's own scope where it has one, else the scopes that the operation requires."""
    if own:
        return own if isinstance(own, str) else " ".join(own)
    return " ".join(required)
